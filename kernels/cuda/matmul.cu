// Own products, tile by tile. A block computes kTile x kTile elements of one matrix of y: it walks
// along K in steps of kDepth, for which it brings both operands into shared memory; a thread sums
// kTile / kThreads squared elements in registers. Memory is read along the dimension in which the
// operand lies densely. Out of bounds, tiles hold zeros.
#include "kernels/cuda/matmul.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/matmul_write.cuh"

namespace mezzo::kernels::cuda {

constexpr int kTile = 64, kDepth = 16, kThreads = 16, kEach = kTile / kThreads;

// An operand seen as lines (rows of a, columns of b) of `depth` elements.
struct MatMulSide {
  const void* data = nullptr;
  DType type = DType::kNone;
  Int lines = 0;
  Int line_step = 0, depth_step = 0;
};

struct MatMulTiles {
  MatMulSide a, b;
  Int depth = 0;
  Divisor row_tiles, column_tiles;
  Int count = 0;
  StridedIndex<3> batch;  // where the matrices of a, b and y start
  MatMulWrite write;
};

template <typename Sum>
using LoadedAs = std::conditional_t<std::is_same_v<Sum, std::uint64_t>, std::int64_t, Sum>;

// Brings lines [line, line + kTile) at depths [depth, depth + kDepth) into shared memory.
template <typename Sum>
__device__ void load_tile(const MatMulSide& side, Int start, Int line, Int depth, Int depths,
                          Sum (*tile)[kTile]) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kTile * kDepth; i += kThreads * kThreads) {
    const bool along_depth = side.depth_step == 1;
    const int d = along_depth ? i % kDepth : i / kTile;
    const int l = along_depth ? i / kDepth : i % kTile;
    Sum value{};
    if (line + l < side.lines && depth + d < depths) {
      const Int at = start + (line + l) * side.line_step + (depth + d) * side.depth_step;
      value = static_cast<Sum>(load_element<LoadedAs<Sum>>(side.data, at, side.type));
    }
    tile[d][l] = value;
  }
}

template <typename Sum>
__device__ void add_products(const Sum (*a)[kTile], const Sum (*b)[kTile],
                             Sum (&sums)[kEach][kEach]) {
  const int row = static_cast<int>(threadIdx.x) / kThreads;
  const int column = static_cast<int>(threadIdx.x) % kThreads;
  for (int d = 0; d < kDepth; ++d) {
    Sum left[kEach], right[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      left[i] = a[d][row + i * kThreads];
      right[i] = b[d][column + i * kThreads];
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) sums[i][j] += left[i] * right[j];
    }
  }
}

template <typename Sum>
__global__ void __launch_bounds__(kThreads* kThreads) matmul_tiles(MatMulTiles tiles) {
  __shared__ Sum a[kDepth][kTile];
  __shared__ Sum b[kDepth][kTile];
  for (Int number = blockIdx.x; number < tiles.count; number += gridDim.x) {
    Int row_tile = 0, column_tile = 0;
    const Int rest = tiles.column_tiles.divide(number, column_tile);
    const Int matrix = tiles.row_tiles.divide(rest, row_tile);
    Int starts[3];
    tiles.batch.offsets(matrix, starts);
    Sum sums[kEach][kEach] = {};
    for (Int depth = 0; depth < tiles.depth; depth += kDepth) {
      load_tile(tiles.a, starts[0], row_tile * kTile, depth, tiles.depth, a);
      load_tile(tiles.b, starts[1], column_tile * kTile, depth, tiles.depth, b);
      __syncthreads();
      add_products(a, b, sums);
      __syncthreads();
    }
    const Int row = row_tile * kTile + threadIdx.x / kThreads;
    const Int column = column_tile * kTile + threadIdx.x % kThreads;
    for (int i = 0; i < kEach; ++i) {
      for (int j = 0; j < kEach; ++j) {
        const Int r = row + i * kThreads, c = column + j * kThreads;
        if (r < tiles.a.lines && c < tiles.b.lines)
          write_sum(tiles.write, sums[i][j], starts[2], r, c);
      }
    }
  }
}

namespace {

MatMulTiles tiles_of(const MatMulProblem& problem, const KernelArguments& arguments) {
  MatMulTiles tiles;
  const Int m = problem.rows, n = problem.columns, k = problem.depth;
  tiles.a = {arguments.inputs[0], problem.a, m, problem.trans_a ? 1 : k, problem.trans_a ? m : 1};
  tiles.b = {arguments.inputs[1], problem.b, n, problem.trans_b ? k : 1, problem.trans_b ? 1 : n};
  tiles.depth = k;
  tiles.row_tiles = Divisor(ceil_div(m, kTile));
  tiles.column_tiles = Divisor(ceil_div(n, kTile));
  Dims sizes;
  std::array<Dims, 3> steps;
  for (const BatchStep& batch : problem.batches) {
    sizes.push_back(batch.size);
    steps[0].push_back(batch.a);
    steps[1].push_back(batch.b);
    steps[2].push_back(batch.y);
  }
  tiles.batch = make_index<3>(sizes, steps);
  tiles.count = tiles.batch.elems * tiles.row_tiles.value() * tiles.column_tiles.value();
  tiles.write = write_of(problem, arguments);
  return tiles;
}

bool any_is(const MatMulProblem& problem, DType dtype) {
  return problem.a == dtype || problem.b == dtype || problem.y == dtype || problem.c == dtype ||
         problem.x == dtype || problem.pre == dtype;
}

}  // namespace

bool own_matmul_takes(const MatMulProblem& problem) {
  if (is_floating(problem.a)) return true;
  return has_elements(problem.a) && problem.a != DType::kBool &&
         problem.epilogue == Epilogue::kNone && problem.sums_of == SumsOf::kNothing;
}

Status run_own_matmul(const MatMulProblem& problem, const KernelArguments& arguments) {
  if (problem.result_elems() > 0) {
    const MatMulTiles tiles = tiles_of(problem, arguments);
    const LaunchShape shape = {
        dim3(static_cast<unsigned>(limit_blocks(tiles.count, (Int{1} << 31) - 1))),
        dim3(kThreads * kThreads)};
    if (!is_floating(problem.a)) {
      MEZZO_RETURN_IF_ERROR(launch<matmul_tiles<std::uint64_t>>(shape, arguments.stream, tiles));
    } else if (any_is(problem, DType::kFloat64)) {
      MEZZO_RETURN_IF_ERROR(launch<matmul_tiles<double>>(shape, arguments.stream, tiles));
    } else {
      MEZZO_RETURN_IF_ERROR(launch<matmul_tiles<float>>(shape, arguments.stream, tiles));
    }
  }
  return problem.sums_of == SumsOf::kNothing ? ok_status() : run_sums(problem, arguments);
}

}  // namespace mezzo::kernels::cuda
