// The kernels of run_reduction (reduce_plan.h).
#include <algorithm>

#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/reduce_ops.h"
#include "kernels/cuda/reduce_plan.h"

namespace mezzo::kernels::cuda {

struct ReduceTarget {
  void* y = nullptr;    // of dtype plan.y; or
  void* raw = nullptr;  // accumulators: of the results, or of [chunk][result]
  const void* shifts = nullptr;
};

// The whole of result number `result`, which stands at y_offset.
template <typename T>
__device__ void write_result(const ReducePlan& plan, const ReduceTarget& target, Int result,
                             Int y_offset, T value) {
  if (target.y == nullptr) {
    static_cast<T*>(target.raw)[result] = value;
    return;
  }
  const T shift = shift_of(static_cast<const T*>(target.shifts), result);
  store_element(target.y, y_offset, plan.y, finished(plan, value, shift));
}

// The part of thread `lane` of a result whose first element stands at `first`.
template <typename T>
__device__ T sum_of_line(const ReducePlan& plan, const void* x, Int first, Int chunk, int lane,
                         int threads, T shift) {
  const Int begin = plan.parts * chunk / plan.chunks.value() + lane;
  const Int end = plan.parts * (chunk + 1) / plan.chunks.value();
  T sums[kReduceVector];
  T shifts[kReduceVector];
#pragma unroll
  for (int k = 0; k < kReduceVector; ++k) {
    sums[k] = start_of<T>(plan);
    shifts[k] = shift;
  }
  const auto place = [&](Int part) {
    Int column = 0;
    Int row[1];
    plan.reduced.offsets(plan.units.divide(part, column), row);
    return first + row[0] + column * kReduceVector;
  };
  if (!join_wide(plan, x, begin, end, threads, place, sums, shifts)) {
    for (Int part = begin; part < end; part += threads) {
      const Int left =
          plan.run - (part - plan.units.quotient(part) * plan.units.value()) * kReduceVector;
      const int count = static_cast<int>(left < kReduceVector ? left : kReduceVector);
      T values[kReduceVector];
      load_elements<T, kReduceVector>(x, place(part), plan.x, values, count);
      join_some(plan, sums, values, shifts, count);
    }
  }
  const JoinParts<T> join{plan.op};
#pragma unroll
  for (int k = 1; k < kReduceVector; ++k) sums[0] = join(sums[0], sums[k]);
  return sums[0];
}

// Every result, or chunk of one, is shared by plan.threads threads: a power of 2 within a warp, or
// a block.
template <typename T>
__global__ void __launch_bounds__(kReduceThreads, 2)
    reduce_lines(ReducePlan plan, const void* x, ReduceTarget target) {
  const bool whole_block = plan.threads > kWarpThreads;
  const int threads = static_cast<int>(plan.threads);
  const int lane = static_cast<int>(threadIdx.x) % threads;
  const int group = static_cast<int>(threadIdx.x) / threads;
  const Int groups = kReduceThreads / threads;
  const Int all = plan.results * plan.chunks.value();
  const JoinParts<T> join{plan.op};
  for (Int first = blockIdx.x * groups; first < all; first += gridDim.x * groups) {
    const Int number = first + group;
    T sum = start_of<T>(plan);
    Int chunk = 0;
    Int at[2] = {0, 0};
    Int result = 0;
    if (number < all) {
      result = plan.chunks.divide(number, chunk);
      plan.kept.offsets(result, at);
      sum = sum_of_line(plan, x, at[0], chunk, lane, threads,
                        shift_of(static_cast<const T*>(target.shifts), result));
    }
    if (whole_block) {
      sum = block_reduce(sum, join, start_of<T>(plan));
    } else {
      for (int distance = threads / 2; distance > 0; distance /= 2) {
        sum = join(sum, __shfl_down_sync(kWholeWarp, sum, static_cast<unsigned>(distance)));
      }
    }
    if (lane != 0 || number >= all) continue;
    if (plan.chunks.value() == 1) {
      write_result(plan, target, result, at[1], sum);
    } else {
      static_cast<T*>(target.raw)[chunk * plan.results + result] = sum;
    }
  }
}

// Block: plan.threads columns of kReduceVector side by side, kReduceThreads / plan.threads rows at
// a time.
template <typename T>
__global__ void __launch_bounds__(kReduceThreads, 2)
    reduce_columns(ReducePlan plan, const void* x, ReduceTarget target) {
  __shared__ T sums[kReduceThreads][kReduceVector];
  const int threads = static_cast<int>(plan.threads);
  const int side = static_cast<int>(threadIdx.x) % threads;
  const int row_thread = static_cast<int>(threadIdx.x) / threads;
  const int row_threads = kReduceThreads / threads;
  const JoinParts<T> join{plan.op};
  const Int all = plan.kept.elems * plan.units.value() * plan.chunks.value();
  for (Int number = blockIdx.x; number < all; number += gridDim.x) {
    Int chunk = 0;
    Int tile = 0;
    const Int outer = plan.units.divide(plan.chunks.divide(number, chunk), tile);
    Int at[2];
    plan.kept.offsets(outer, at);
    const Int column = (tile * threads + side) * kReduceVector;
    const Int left = plan.columns - column;
    const int count =
        static_cast<int>(left < kReduceVector ? (left > 0 ? left : 0) : kReduceVector);
    const Int result = outer * plan.columns + column;
    T sum[kReduceVector];
    T shift[kReduceVector];
#pragma unroll
    for (int k = 0; k < kReduceVector; ++k) {
      sum[k] = start_of<T>(plan);
      shift[k] = k < count ? shift_of(static_cast<const T*>(target.shifts), result + k) : T{0};
    }
    const Int begin = plan.parts * chunk / plan.chunks.value();
    const Int end = plan.parts * (chunk + 1) / plan.chunks.value();
    const auto row_at = [&](Int part) {
      Int row[1];
      plan.reduced.offsets(part, row);
      return at[0] + row[0] + column;
    };
    if (count > 0 &&
        !join_wide(plan, x, begin + row_thread, end, row_threads, row_at, sum, shift)) {
      for (Int part = begin + row_thread; part < end; part += row_threads) {
        T values[kReduceVector];
        load_elements<T, kReduceVector>(x, row_at(part), plan.x, values, count);
        join_some(plan, sum, values, shift, count);
      }
    }
#pragma unroll
    for (int k = 0; k < kReduceVector; ++k) sums[threadIdx.x][k] = sum[k];
    __syncthreads();
    // Every thread joins one column after another: kReduceVector plan.threads of them.
    for (int c = static_cast<int>(threadIdx.x); c < threads * kReduceVector; c += kReduceThreads) {
      const int thread = c / kReduceVector;
      const Int place = tile * threads * kReduceVector + c;
      if (place >= plan.columns) break;
      T total = sums[thread][c % kReduceVector];
      for (int r = 1; r < row_threads; ++r) {
        total = join(total, sums[r * threads + thread][c % kReduceVector]);
      }
      const Int whole = outer * plan.columns + place;
      if (plan.chunks.value() == 1) {
        write_result(plan, target, whole, at[1] + place * plan.y_step, total);
      } else {
        static_cast<T*>(target.raw)[chunk * plan.results + whole] = total;
      }
    }
    __syncthreads();
  }
}

// The chunks' partial results [chunk][result], a warp for every result.
template <typename T>
__global__ void join_partial(ReducePlan plan, const T* partial, ReduceTarget target,
                             Divisor columns) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const Int warps = kReduceThreads / kWarpThreads;
  const JoinParts<T> join{plan.op};
  for (Int result = blockIdx.x * warps + threadIdx.x / kWarpThreads; result < plan.results;
       result += gridDim.x * warps) {
    T sum = start_of<T>(plan);
    for (Int chunk = lane; chunk < plan.chunks.value(); chunk += kWarpThreads) {
      sum = join(sum, partial[chunk * plan.results + result]);
    }
    sum = warp_reduce(sum, join);
    if (lane != 0) continue;
    Int column = 0;
    Int at[2];
    plan.kept.offsets(columns.divide(result, column), at);
    write_result(plan, target, result, at[1] + column * plan.y_step, sum);
  }
}

namespace {

constexpr Int kMostBlocks = 2048;  // enough to fill a device

LaunchShape blocks_for(Int units) {
  return {dim3(static_cast<unsigned>(limit_blocks(units, kMostBlocks))), dim3(kReduceThreads), 0};
}

template <typename T>
Status run_typed(const ReducePlan& plan, const void* x, const ReduceTarget& target, void* partial,
                 void* stream) {
  const bool chunked = plan.chunks.value() > 1;
  ReduceTarget first = target;
  if (chunked) first.raw = partial;
  if (plan.by_column != 0) {
    const Int blocks = plan.kept.elems * plan.units.value() * plan.chunks.value();
    MEZZO_RETURN_IF_ERROR(launch<reduce_columns<T>>(blocks_for(blocks), stream, plan, x, first));
  } else {
    const Int blocks = ceil_div(plan.results * plan.chunks.value(), kReduceThreads / plan.threads);
    MEZZO_RETURN_IF_ERROR(launch<reduce_lines<T>>(blocks_for(blocks), stream, plan, x, first));
  }
  if (!chunked) return ok_status();
  return launch<join_partial<T>>(blocks_for(ceil_div(plan.results, kReduceThreads / kWarpThreads)),
                                 stream, plan, static_cast<const T*>(partial), target,
                                 Divisor(plan.columns));
}

}  // namespace

Status run_reduction(const ReducePlan& plan, const void* x, void* y, void* partial,
                     const void* shifts, bool raw, void* stream) {
  if (plan.results == 0) return ok_status();
  ReduceTarget target;
  (raw ? target.raw : target.y) = y;
  target.shifts = shifts;
  switch (plan.accumulator) {
    case Accumulator::kFloat: return run_typed<float>(plan, x, target, partial, stream);
    case Accumulator::kDouble: return run_typed<double>(plan, x, target, partial, stream);
    case Accumulator::kInteger: return run_typed<std::int64_t>(plan, x, target, partial, stream);
  }
  return ok_status();
}

}  // namespace mezzo::kernels::cuda
