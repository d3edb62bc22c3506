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
inline constexpr int kMostTeamThreads = 512;
inline constexpr unsigned kTeamsOfWarps = 4;  // of a block

struct RowWalk {
  std::int64_t length = 0;
  std::int32_t chunks = 1;
  std::int32_t packed = 0;  // a thread's elements are neighbours, moved 16 bytes at a time
  std::int32_t shift = 0;   // elements before the row that the first pack begins with

  // Where in the row the thread's element k of the chunk lies; it may be before or beyond it.
  __device__ __forceinline__ std::int64_t place(int chunk, int k) const {
    const std::int64_t threads = blockDim.x;
    const std::int64_t lane = threadIdx.x;
    return packed != 0 ? (chunk * threads + lane) * kHeld + k - shift
                       : (chunk * std::int64_t{kHeld} + k) * threads + lane;
  }
  __device__ __forceinline__ bool has(std::int64_t place) const {
    return static_cast<std::uint64_t>(place) < static_cast<std::uint64_t>(length);
  }
  // For a row that begins anywhere: packs lie where accesses are whole.
  __device__ __forceinline__ RowWalk from(std::int64_t start) const {
    RowWalk walk = *this;
    if (packed != 0) walk.shift = static_cast<std::int32_t>(start % kHeld);
    return walk;
  }
  // The pack at `at` of the row that begins at `start` is one access.
  __device__ __forceinline__ bool is_whole(std::int64_t start, std::int64_t at) const {
    return packed != 0 && at >= 0 && at + kHeld <= length && (start + at) % kHeld == 0;
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

// The thread's elements of row `start` (in elements); `fill` where there is none.
template <typename T>
__device__ __forceinline__ void load_held(const FloatsIn& x, std::int64_t start,
                                          const RowWalk& walk, int chunk, T (&to)[kHeld], T fill) {
  const std::int64_t first = walk.place(chunk, 0);
  if (walk.is_whole(start, first)) {
    load_packed(x, start + first, to);
    return;
  }
  with_float(x.dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    const U* row = static_cast<const U*>(x.data) + start;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const std::int64_t at = walk.place(chunk, k);
      to[k] = walk.has(at) ? number_of<T>(row[at]) : fill;
    }
  });
}

template <typename T>
__device__ __forceinline__ void store_held(const FloatsOut& y, std::int64_t start,
                                           const RowWalk& walk, int chunk, const T (&from)[kHeld]) {
  const std::int64_t first = walk.place(chunk, 0);
  if (walk.is_whole(start, first)) {
    store_packed(y, start + first, from);
    return;
  }
  with_float(y.dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    U* row = static_cast<U*>(y.data) + start;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const std::int64_t at = walk.place(chunk, k);
      if (walk.has(at)) row[at] = element_of<U>(from[k]);
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

// Whether rows may begin between two packs: then kernels take walk.from(start).
enum class RowStart : std::uint8_t { kAtPack, kAnywhere };

// `aligned`: all buffers walked through lie at multiples of 16 bytes.
inline RowWalk row_walk(std::int64_t length, const LaunchShape& shape, bool aligned,
                        RowStart start = RowStart::kAtPack) {
  constexpr std::int64_t kWorthShifting = 256;
  const std::int64_t held = std::int64_t{kHeld} * shape.block.x;
  const bool whole = length % kHeld == 0;
  const bool shifts = !whole && start == RowStart::kAnywhere && length >= kWorthShifting;
  const std::int64_t most = length + (shifts ? kHeld - 1 : 0);
  return {length, static_cast<std::int32_t>((most + held - 1) / held),
          aligned && (whole || shifts) ? 1 : 0, 0};
}

}  // namespace mezzo::kernels::cuda
