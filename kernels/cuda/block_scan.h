// Running joins over the threads of a block, in the order of the threads.
#pragma once

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/reduce.h"

namespace mezzo::kernels::cuda {

// What all lower threads' values are joined to (`nothing` for the first), and in `total` all of the
// block's. T: of 4 or 8 bytes. REQUIRES: as block_reduce.
template <typename T, typename Join>
__device__ T block_scan(T value, Join join, T nothing, T& total) {
  __shared__ T of_warp[kMostWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int warps = static_cast<int>(blockDim.x) / kWarpThreads;
#pragma unroll
  for (int distance = 1; distance < kWarpThreads; distance *= 2) {
    const T lower = __shfl_up_sync(kWholeWarp, value, static_cast<unsigned>(distance));
    if (lane >= distance) value = join(lower, value);
  }
  const T before = __shfl_up_sync(kWholeWarp, value, 1);
  __syncthreads();  // the last call's values have been read
  if (lane == kWarpThreads - 1) of_warp[warp] = value;
  __syncthreads();
  T sum = nothing;
  total = nothing;
  for (int w = 0; w < warps; ++w) {
    if (w == warp) sum = total;
    total = join(total, of_warp[w]);
  }
  return lane == 0 ? sum : join(sum, before);
}

}  // namespace mezzo::kernels::cuda
