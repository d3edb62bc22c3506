// What goes with products: sums of their operands, addends, and the rest of an operator whose sums
// a library has left in float32.

#include "kernels/cuda/launch.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/matmul_write.cuh"
#include "kernels/cuda/reduce.h"

namespace mezzo::kernels::cuda {

// Lines of numbers: line i has elements i line_step + j step, j below `length`.
struct MatMulLines {
  const void* from = nullptr;
  void* to = nullptr;
  DType from_type = DType::kNone, to_type = DType::kNone;
  Int count = 0, length = 0;
  Int line_step = 0, step = 0;
};

constexpr int kLineThreads = 32;

// to[i] = the sum of line i. Lines that lie densely are summed by a warp each, others by a column
// of threads each, so that a warp always reads neighbours. Sums in float (double for double): per
// thread in rising order, then over the threads in fixed order.
template <typename T>
__global__ void __launch_bounds__(kLineThreads* kLineThreads) matmul_line_sums(MatMulLines lines) {
  // Two, used in turn: who writes one again has met all that read it at the other's barrier.
  __shared__ T partial[2][kLineThreads][kLineThreads + 1];
  const int x = static_cast<int>(threadIdx.x) % kLineThreads;
  const int y = static_cast<int>(threadIdx.x) / kLineThreads;
  const bool dense = lines.step == 1;
  int turn = 0;
  for (Int first = Int{blockIdx.x} * kLineThreads; first < lines.count;
       first += Int{gridDim.x} * kLineThreads) {
    const Int line = first + (dense ? y : x);
    T sum{};
    if (line < lines.count) {
      for (Int j = dense ? x : y; j < lines.length; j += kLineThreads) {
        sum +=
            load_element<T>(lines.from, line * lines.line_step + j * lines.step, lines.from_type);
      }
    }
    partial[turn][dense ? y : x][dense ? x : y] = sum;  // [line][part]
    __syncthreads();
    sum = warp_sum(partial[turn][y][x]);
    turn = 1 - turn;
    if (x == 0 && first + y < lines.count) store_element(lines.to, first + y, lines.to_type, sum);
  }
}

__global__ void matmul_spread(const void* c, DType c_type, Int c_row, Int c_column, void* y,
                              DType y_type, Divisor columns, Int elems) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int i = Int{blockIdx.x} * blockDim.x + threadIdx.x; i < elems; i += step) {
    Int column = 0;
    const Int row = columns.divide(i, column);
    const Int at = row * c_row + column * c_column;
    if (y_type == DType::kFloat64) {
      store_element(y, i, y_type, load_element<double>(c, at, c_type));
    } else {
      store_element(y, i, y_type, load_element<float>(c, at, c_type));
    }
  }
}

__global__ void matmul_finish(const float* sums, MatMulWrite write, Divisor columns, Int elems) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int i = Int{blockIdx.x} * blockDim.x + threadIdx.x; i < elems; i += step) {
    Int column = 0;
    const Int row = columns.divide(i, column);
    write_sum(write, sums[i], Int{0}, row, column);
  }
}

Status run_sums(const MatMulProblem& problem, const KernelArguments& arguments) {
  MatMulLines lines;
  lines.to = arguments.outputs[1];
  lines.to_type = problem.sums;
  const Int m = problem.rows, n = problem.columns, k = problem.depth;
  switch (problem.sums_of) {
    case SumsOf::kNothing: return ok_status();
    case SumsOf::kA:
      lines.from = arguments.inputs[0];
      lines.from_type = problem.a;
      lines.count = m;
      lines.length = k;
      lines.line_step = problem.trans_a ? 1 : k;
      lines.step = problem.trans_a ? m : 1;
      break;
    case SumsOf::kB:
      lines.from = arguments.inputs[1];
      lines.from_type = problem.b;
      lines.count = n;
      lines.length = k;
      lines.line_step = problem.trans_b ? k : 1;
      lines.step = problem.trans_b ? 1 : n;
      break;
  }
  if (lines.count == 0) return ok_status();
  const LaunchShape shape = {
      dim3(static_cast<unsigned>(limit_blocks(ceil_div(lines.count, kLineThreads), 1 << 16))),
      dim3(kLineThreads * kLineThreads)};
  if (lines.from_type == DType::kFloat64 || lines.to_type == DType::kFloat64)
    return launch<matmul_line_sums<double>>(shape, arguments.stream, lines);
  return launch<matmul_line_sums<float>>(shape, arguments.stream, lines);
}

Status spread_addend(const MatMulProblem& problem, const void* c, void* y, void* stream) {
  const Int elems = problem.result_elems();
  if (elems == 0) return ok_status();
  return launch<matmul_spread>(shape_for(elems), stream, c, problem.c, problem.c_row,
                               problem.c_column, y, problem.y, Divisor(problem.columns), elems);
}

Status finish_sums(const MatMulProblem& problem, const float* sums,
                   const KernelArguments& arguments) {
  const Int elems = problem.result_elems();
  if (elems == 0) return ok_status();
  MatMulWrite write = write_of(problem, arguments);
  write.alpha = 1.0;  // is in the sums
  return launch<matmul_finish>(shape_for(elems), arguments.stream, sums, write,
                               Divisor(problem.columns), elems);
}

}  // namespace mezzo::kernels::cuda
