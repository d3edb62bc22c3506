// Rows of neighbouring elements, each worked on by a team of threads that holds it in registers:
// a warp where rows are short (then a block has several teams), else a block. A row too long for
// that is walked through in chunks, which are read again for every pass over it.
//
//   T x[kHeld];
//   for (int chunk = 0; chunk < walk.chunks; ++chunk) {
//     load_held(operand, start, walk, chunk, x, T(0));
//     ..
//   }
//   ..
//   for (int chunk = 0; chunk < walk.chunks; ++chunk) {
//     if (walk.chunks > 1) load_held(operand, start, walk, chunk, x, T(0));
//     ..
//     store_held(result, start, walk, chunk, x);
//   }
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/float_element.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.h"

namespace mezzo::kernels::cuda {

inline constexpr int kHeld = 8;  // elements of a chunk that one thread holds
inline constexpr int kMostTeamThreads = 1024;
inline constexpr unsigned kTeamsOfWarps = 4;  // of a block

struct RowWalk {
  std::int64_t length = 0;
  std::int32_t chunks = 1;
  std::int32_t packed = 0;  // a thread's elements are neighbours, moved 16 bytes at a time

  // Where in the row the thread's element k of the chunk lies; it may be beyond the end.
  __device__ __forceinline__ std::int64_t place(int chunk, int k) const {
    const std::int64_t threads = blockDim.x;
    const std::int64_t lane = threadIdx.x;
    return packed != 0 ? (chunk * threads + lane) * kHeld + k
                       : (chunk * std::int64_t{kHeld} + k) * threads + lane;
  }
};

// The team's first row, and how many rows there are to the next one of the same team.
__device__ __forceinline__ std::int64_t first_row() {
  return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
}
__device__ __forceinline__ std::int64_t row_step() { return std::int64_t{gridDim.x} * blockDim.y; }

// As block_reduce, for the threads of a team.
template <typename T, typename Join>
__device__ __forceinline__ T team_reduce(T value, Join join, T nothing) {
  if (blockDim.x == kWarpThreads) return warp_reduce(value, join);
  return block_reduce(value, join, nothing);
}

// The thread's elements of row `start` (in elements); `fill` where the row has ended.
template <typename T>
__device__ __forceinline__ void load_held(const FloatsIn& x, std::int64_t start,
                                          const RowWalk& walk, int chunk, T (&to)[kHeld], T fill) {
  if (walk.packed != 0) {
    const std::int64_t at = walk.place(chunk, 0);
    if (at < walk.length) {
      load_packed(x, start + at, to);
    } else {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) to[k] = fill;
    }
    return;
  }
  with_float(x.dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    const U* row = static_cast<const U*>(x.data) + start;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const std::int64_t at = walk.place(chunk, k);
      to[k] = at < walk.length ? number_of<T>(row[at]) : fill;
    }
  });
}

template <typename T>
__device__ __forceinline__ void store_held(const FloatsOut& y, std::int64_t start,
                                           const RowWalk& walk, int chunk, const T (&from)[kHeld]) {
  if (walk.packed != 0) {
    const std::int64_t at = walk.place(chunk, 0);
    if (at < walk.length) store_packed(y, start + at, from);
    return;
  }
  with_float(y.dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    U* row = static_cast<U*>(y.data) + start;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const std::int64_t at = walk.place(chunk, k);
      if (at < walk.length) row[at] = element_of<U>(from[k]);
    }
  });
}

// Teams of at most `most_threads` for rows of `length`, at most `most_teams` of them.
// REQUIRES: rows, length > 0; most_threads a multiple of a warp.
inline LaunchShape row_shape(std::int64_t rows, std::int64_t length,
                             std::int64_t most_teams = limit_blocks(1 << 18, 1 << 18),
                             std::int64_t most_threads = kMostTeamThreads) {
  const std::int64_t wanted = (length + kHeld - 1) / kHeld;
  const std::int64_t threads =
      std::min(most_threads, (wanted + kWarpThreads - 1) / kWarpThreads * kWarpThreads);
  const std::int64_t teams = threads == kWarpThreads ? kTeamsOfWarps : 1;
  const std::int64_t blocks = (std::min(rows, most_teams) + teams - 1) / teams;
  return {dim3(static_cast<unsigned>(blocks)),
          dim3(static_cast<unsigned>(threads), static_cast<unsigned>(teams)), 0};
}

// `aligned`: all buffers walked through lie at multiples of 16 bytes.
inline RowWalk row_walk(std::int64_t length, const LaunchShape& shape, bool aligned) {
  const std::int64_t held = std::int64_t{kHeld} * shape.block.x;
  return {length, static_cast<std::int32_t>((length + held - 1) / held),
          aligned && length % kHeld == 0 ? 1 : 0};
}

}  // namespace mezzo::kernels::cuda
