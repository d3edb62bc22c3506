// The second stage of sums over rows: adds up the sums of parts, column by column.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/float_element.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.h"

namespace mezzo::kernels::cuda {

inline constexpr int kColumnTurns = 8;  // threads that take turns along a column

// to[c] = sum over p of parts[p, c]: eight sums over every eighth part, added up in order.
// parts[count, columns]. Blocks of kWarpThreads by kColumnTurns.
template <typename T>
__global__ void __launch_bounds__(kWarpThreads* kColumnTurns)
    sum_parts(const T* parts, std::int64_t count, std::int64_t columns, FloatsOut to) {
  __shared__ T sums[kColumnTurns][kWarpThreads];
  const std::int64_t step = std::int64_t{gridDim.x} * kWarpThreads;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kWarpThreads; first < columns;
       first += step) {
    const std::int64_t column = first + threadIdx.x;
    T sum = T(0);
    for (std::int64_t p = threadIdx.y; column < columns && p < count; p += kColumnTurns) {
      sum += parts[p * columns + column];
    }
    __syncthreads();
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= columns) continue;
    for (int turn = 1; turn < kColumnTurns; ++turn) sum += sums[turn][threadIdx.x];
    store_float(to, column, sum);
  }
}

// REQUIRES: columns > 0.
template <typename T>
Status launch_sum_parts(const T* parts, std::int64_t count, std::int64_t columns,
                        const FloatsOut& to, void* stream) {
  const std::int64_t blocks = limit_blocks((columns + kWarpThreads - 1) / kWarpThreads, 1 << 16);
  const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), dim3(kWarpThreads, kColumnTurns), 0};
  return launch<sum_parts<T>>(shape, stream, parts, count, columns, to);
}

}  // namespace mezzo::kernels::cuda
