// GatherGrad, the gradient of an embedding: dx is zero but for the named rows, which are the sums
// of their rows of dy. Letters: O outer, D the axis, I inner, J indices: dy[O,J,I], indices[J] ->
// dx[O,D,I].
//
// The words (row, j) are sorted, so that all that goes to one row stands together, in the order of
// the indices. Chunks of them are summed side by side; a row whose words fill several chunks is
// joined from their partial sums, chunk by chunk. Sums in float32 (float64 for such operands), in
// an order that follows from the indices alone.
#include <algorithm>
#include <string>

#include "kernels/cuda/element.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/index_fault.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sort_words.h"

namespace mezzo::kernels::cuda {

constexpr int kChunk = 32;  // words that one thread walks through
constexpr int kVector = 4;  // neighbours along I that a thread sums
constexpr Int kMostSumThreads = 128;
constexpr std::uint64_t kNoRow = 0xffffffffU;  // of an index out of range: behind all others

struct GatherGradPlan {
  Int axis_size = 0, inner = 1, indices = 0;
  Int columns = 0;  // vectors of all outer indices together
  Int chunks = 0;
  Divisor vectors;  // per row
  Divisor tiles;    // of `threads` columns
  Int threads = kMostSumThreads;
  DType dy = DType::kNone, dx = DType::kNone;
  std::int32_t wide = 0;
};

__device__ inline std::uint64_t row_of(std::uint64_t word) { return word >> 32; }

__global__ void make_row_words(const void* indices, std::int32_t wide, Int count, Int axis_size,
                               std::uint64_t* words, FaultPlace place) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int j = blockIdx.x * Int{blockDim.x} + threadIdx.x; j < count; j += step) {
    const Int row = checked_index(load_index(indices, j, wide), axis_size, place, j);
    const std::uint64_t high = row < 0 ? kNoRow : static_cast<std::uint64_t>(row);
    words[j] = (high << 32) | static_cast<std::uint64_t>(j);
  }
}

// Where a column begins in row j of dy (row `row` of dx), and how many of the vector are there.
struct Column {
  Int outer = 0, place = 0;
  int count = 0;
};
__device__ inline Column column_at(const GatherGradPlan& plan, Int number) {
  Column column;
  column.outer = plan.vectors.divide(number, column.place);
  column.place *= kVector;
  const Int left = plan.inner - column.place;
  column.count = static_cast<int>(left < kVector ? left : kVector);
  return column;
}

template <typename T>
__device__ void store_sum(const GatherGradPlan& plan, const Column& column, std::uint64_t row,
                          const T (&sum)[kVector], void* dx) {
  if (row == kNoRow) return;
  const Int at = (column.outer * plan.axis_size + static_cast<Int>(row)) * plan.inner;
  store_elements<T, kVector>(dx, at + column.place, plan.dx, sum, column.count);
}

// Partial sums [chunk][0: continues a row of the chunk before, 1: goes on in the next][columns][4].
template <typename T>
__device__ T* partial_at(const GatherGradPlan& plan, T* partial, Int chunk, int which, Int column) {
  return partial + ((chunk * 2 + which) * plan.columns + column) * kVector;
}

// Every block: one chunk of words, a column per thread.
template <typename T>
__global__ void sum_chunks(GatherGradPlan plan, const std::uint64_t* words, const void* dy,
                           void* dx, T* partial) {
  const Int blocks = plan.chunks * plan.tiles.value();
  for (Int block = blockIdx.x; block < blocks; block += gridDim.x) {
    Int tile = 0;
    const Int chunk = plan.tiles.divide(block, tile);
    const Int number = tile * plan.threads + threadIdx.x;
    if (number >= plan.columns) continue;
    const Column column = column_at(plan, number);
    const Int first = chunk * kChunk;
    const int count =
        static_cast<int>(plan.indices - first < kChunk ? plan.indices - first : kChunk);
    std::uint64_t row = row_of(words[first]);
    bool begins = first == 0 || row_of(words[first - 1]) != row;
    T sum[kVector] = {};
    constexpr int kAhead = 4;  // rows of dy on their way at once
    for (int k = 0; k < count; k += kAhead) {
      T values[kAhead][kVector];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        if (k + a >= count) break;
        const auto j = static_cast<Int>(words[first + k + a] & 0xffffffffU);
        load_elements<T, kVector>(dy, (column.outer * plan.indices + j) * plan.inner + column.place,
                                  plan.dy, values[a], column.count);
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        if (k + a >= count) break;
#pragma unroll
        for (int v = 0; v < kVector; ++v) sum[v] += values[a][v];
        const Int next = first + k + a + 1;
        const std::uint64_t next_row = next < plan.indices ? row_of(words[next]) : kNoRow + 1;
        const bool ends = next_row != row;
        if (!ends && k + a + 1 < count) continue;
        if (begins && ends) {
          store_sum(plan, column, row, sum, dx);
        } else {
          T* to = partial_at(plan, partial, chunk, begins ? 1 : 0, number);
#pragma unroll
          for (int v = 0; v < kVector; ++v) to[v] = sum[v];
        }
#pragma unroll
        for (int v = 0; v < kVector; ++v) sum[v] = T{0};
        row = next_row;
        begins = true;
      }
    }
  }
}

// Rows that go on beyond the chunk in which they begin.
template <typename T>
__global__ void join_chunks(GatherGradPlan plan, const std::uint64_t* words, void* dx,
                            const T* partial) {
  const Int blocks = plan.chunks * plan.tiles.value();
  for (Int block = blockIdx.x; block < blocks; block += gridDim.x) {
    Int tile = 0;
    const Int chunk = plan.tiles.divide(block, tile);
    const Int number = tile * plan.threads + threadIdx.x;
    const Int behind = (chunk + 1) * kChunk;  // the next chunk's first word
    if (number >= plan.columns || behind >= plan.indices) continue;
    const std::uint64_t row = row_of(words[behind - 1]);
    if (row_of(words[behind]) != row || row == kNoRow) continue;
    const Int first = chunk * kChunk;
    const bool begins_before =
        first > 0 && row_of(words[first - 1]) == row && row_of(words[first]) == row;
    if (begins_before) continue;
    const Int end = behind + count_below(words + behind, plan.indices - behind, (row + 1) << 32);
    const Int chunks = (end - 1) / kChunk;  // the last one that holds the row
    T sum[kVector];
    const T* from = partial_at(plan, partial, chunk, 1, number);
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum[v] = from[v];
#pragma unroll 4
    for (Int next = chunk + 1; next <= chunks; ++next) {
      from = partial_at(plan, partial, next, 0, number);
#pragma unroll
      for (int v = 0; v < kVector; ++v) sum[v] += from[v];
    }
    store_sum(plan, column_at(plan, number), row, sum, dx);
  }
}

namespace {

constexpr std::string_view kName = "cuda:sorted";
constexpr Int kMostRows = 0xffffffff;

template <typename T>
Status sum_rows(const GatherGradPlan& plan, const std::uint64_t* words, T* partial,
                const KernelArguments& arguments) {
  LaunchShape shape;
  shape.grid =
      dim3(static_cast<unsigned>(limit_blocks(plan.chunks * plan.tiles.value(), Int{1} << 20)));
  shape.block = dim3(static_cast<unsigned>(plan.threads));
  MEZZO_RETURN_IF_ERROR(launch<sum_chunks<T>>(shape, arguments.stream, plan, words,
                                              arguments.inputs[0], arguments.outputs[0], partial));
  if (plan.chunks == 1) return ok_status();
  return launch<join_chunks<T>>(shape, arguments.stream, plan, words, arguments.outputs[0],
                                static_cast<const T*>(partial));
}

Prepared gather_grad(const KernelRequest& request) {
  const TensorDesc& dx = request.outputs[0];
  if (!is_row_major(request)) return unimplemented("a channels-last operand or result");
  const std::size_t axis = axis_of(request, "axis", 0, dx.dims.size());
  GatherGradPlan plan;
  Int outer = 1;
  for (std::size_t d = 0; d < dx.dims.size(); ++d) {
    if (d < axis) outer *= dx.dims[d];
    if (d > axis) plan.inner *= dx.dims[d];
  }
  plan.axis_size = dx.dims[axis];
  plan.indices = request.inputs[1].elems();
  if (plan.axis_size >= kMostRows || plan.indices >= kMostRows) {
    return unimplemented("2^32 rows or more");
  }
  const Int vectors = ceil_div(plan.inner, kVector);
  plan.vectors = Divisor(vectors);
  plan.columns = outer * vectors;
  plan.threads = std::clamp<Int>(ceil_div(plan.columns, 32) * 32, 32, kMostSumThreads);
  plan.tiles = Divisor(ceil_div(plan.columns, plan.threads));
  plan.chunks = ceil_div(plan.indices, kChunk);
  plan.dy = request.inputs[0].dtype;
  plan.dx = dx.dtype;
  plan.wide = request.inputs[1].dtype == DType::kInt64 ? 1 : 0;
  const bool in_double = plan.dy == DType::kFloat64 || plan.dx == DType::kFloat64;
  // The words twice, then the partial sums.
  const std::size_t words_bytes =
      static_cast<std::size_t>(ceil_div(plan.indices, 2) * 2) * sizeof(std::uint64_t);
  const std::size_t partial_bytes =
      plan.chunks <= 1 ? 0
                       : static_cast<std::size_t>(plan.chunks * 2 * plan.columns * kVector) *
                             (in_double ? sizeof(double) : sizeof(float));
  return make_kernel(
      kName, 2 * words_bytes + partial_bytes,
      [plan, in_double, words_bytes, bytes = dx.bytes()](const KernelArguments& arguments) {
        if (bytes == 0) return ok_status();
        MEZZO_RETURN_IF_ERROR(
            check("cudaMemsetAsync", cudaMemsetAsync(arguments.outputs[0], 0, bytes,
                                                     static_cast<cudaStream_t>(arguments.stream))));
        if (plan.indices == 0) return ok_status();
        auto* room = static_cast<std::byte*>(arguments.workspace);
        auto* words = reinterpret_cast<std::uint64_t*>(room);
        auto* spare = reinterpret_cast<std::uint64_t*>(room + words_bytes);
        void* partial = room + 2 * words_bytes;
        MEZZO_RETURN_IF_ERROR(launch<make_row_words>(
            shape_for(plan.indices), arguments.stream, arguments.inputs[1], plan.wide, plan.indices,
            plan.axis_size, words, fault_place(arguments)));
        MEZZO_ASSIGN_OR_RETURN(
            const std::uint64_t* sorted,
            sort_words<std::uint64_t>({1, plan.indices}, words, spare, arguments.stream));
        return in_double ? sum_rows(plan, sorted, static_cast<double*>(partial), arguments)
                         : sum_rows(plan, sorted, static_cast<float*>(partial), arguments);
      },
      explain_index(request.op, plan.axis_size));
}

constexpr KernelEntry kRows[] = {{"GatherGrad", kName, gather_grad}};

}  // namespace

std::span<const KernelEntry> gather_grad_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
