// Reductions over the threads of a warp and of a block. The order in which values are joined
// follows from the threads' numbers alone: results are the same bits in every run.
//
// T: float, double, an integer of 4 or 8 bytes, Pair of these, or Moments. `join(a, b)` is given
// the value of lower threads first; it need not commute. All threads of the warp (the block) call,
// and all are given the result.
//
//   const float sum = block_sum(mine);
//   const Pair<float> sums = block_reduce(Pair<float>{a, b}, PairSum(), Pair<float>{0, 0});
//   const Moments<float> row = block_reduce(mine, JoinMoments(), Moments<float>{0, 0, 0});
#pragma once

#include "kernels/cuda/device_code.h"
#include "kernels/formulas/moments.h"

namespace mezzo::kernels::cuda {

inline constexpr int kWarpThreads = 32;
inline constexpr int kMostWarps = 32;  // of a block
inline constexpr unsigned kWholeWarp = 0xffffffffu;

template <typename T, typename U = T>
struct Pair {
  T first;
  U second;
};

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct PairSum {
  template <typename T>
  __device__ Pair<T> operator()(const Pair<T>& a, const Pair<T>& b) const {
    return {a.first + b.first, a.second + b.second};
  }
};

// The larger one; NaN only where both are, as fmax has it.
struct FMax {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ double operator()(double a, double b) const { return fmax(a, b); }
};

struct JoinMoments {
  template <typename T>
  __device__ Moments<T> operator()(const Moments<T>& a, const Moments<T>& b) const {
    return joined(a, b);
  }
};

namespace internal {

template <typename T>
__device__ T shuffle_down(T value, int distance) {
  return __shfl_down_sync(kWholeWarp, value, static_cast<unsigned>(distance));
}
template <typename T, typename U>
__device__ Pair<T, U> shuffle_down(const Pair<T, U>& value, int distance) {
  return {shuffle_down(value.first, distance), shuffle_down(value.second, distance)};
}
template <typename T>
__device__ Moments<T> shuffle_down(const Moments<T>& value, int distance) {
  return {shuffle_down(value.count, distance), shuffle_down(value.mean, distance),
          shuffle_down(value.squares, distance)};
}

template <typename T>
__device__ T from_first(T value) {
  return __shfl_sync(kWholeWarp, value, 0);
}
template <typename T, typename U>
__device__ Pair<T, U> from_first(const Pair<T, U>& value) {
  return {from_first(value.first), from_first(value.second)};
}
template <typename T>
__device__ Moments<T> from_first(const Moments<T>& value) {
  return {from_first(value.count), from_first(value.mean), from_first(value.squares)};
}

}  // namespace internal

// Lane i joins lane i + 16, then i + 8, ..: only the first lane's value is the whole.
template <typename T, typename Join>
__device__ T warp_reduce(T value, Join join) {
#pragma unroll
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    value = join(value, internal::shuffle_down(value, distance));
  }
  return internal::from_first(value);
}

// REQUIRES: a block of one dimension and of whole warps. `nothing` leaves what it is joined to
// unchanged. Waits for the block twice; shared memory written before is seen by all afterwards.
template <typename T, typename Join>
__device__ T block_reduce(T value, Join join, T nothing) {
  __shared__ T of_warp[kMostWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int warps = static_cast<int>(blockDim.x) / kWarpThreads;
  value = warp_reduce(value, join);
  __syncthreads();  // the last call's values have been read
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  return warp_reduce(lane < warps ? of_warp[lane] : nothing, join);
}

template <typename T>
__device__ T warp_sum(T value) {
  return warp_reduce(value, Sum());
}
template <typename T>
__device__ T warp_max(T value) {
  return warp_reduce(value, FMax());
}
template <typename T>
__device__ T block_sum(T value) {
  return block_reduce(value, Sum(), T(0));
}
// NaN is passed over unless all are NaN; `least` is not larger than any other value.
template <typename T>
__device__ T block_max(T value, T least) {
  return block_reduce(value, FMax(), least);
}

}  // namespace mezzo::kernels::cuda
