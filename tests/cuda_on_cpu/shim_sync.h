// Barriers, votes and shuffles. Part of shim.h.
#pragma once

#include <cstring>

#include "tests/cuda_on_cpu/device/execution.h"

namespace cuda_on_cpu {

// The value of lane `source`; of a lane that does not take part, bits that are all ones, since CUDA
// leaves it undefined.
template <typename T>
T shuffle(unsigned mask, T value, int source, Place place) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const WarpValues warp = cuda_on_cpu_gather_warp(mask, bits, place);
  bits = (warp.lanes >> source & 1U) != 0 ? warp.values[source] : ~std::uint64_t{0};
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline int lane() { return cuda_on_cpu_thread->lane; }
inline int segment_begin(int width) { return lane() & ~(width - 1); }

}  // namespace cuda_on_cpu

inline void __syncthreads(cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  cuda_on_cpu::cuda_on_cpu_sync_block(place);
}
inline int __syncthreads_count(int predicate,
                               cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  return cuda_on_cpu::cuda_on_cpu_vote_block(predicate, cuda_on_cpu::Vote::kCount, place);
}
inline int __syncthreads_and(int predicate,
                             cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  return cuda_on_cpu::cuda_on_cpu_vote_block(predicate, cuda_on_cpu::Vote::kAll, place);
}
inline int __syncthreads_or(int predicate,
                            cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  return cuda_on_cpu::cuda_on_cpu_vote_block(predicate, cuda_on_cpu::Vote::kAny, place);
}
inline void __syncwarp(unsigned mask = ~0U,
                       cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  cuda_on_cpu::cuda_on_cpu_sync_warp(mask, place);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = cuda_on_cpu::kWarpSize,
              cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  const int from = cuda_on_cpu::segment_begin(width) | (source & (width - 1));
  return cuda_on_cpu::shuffle(mask, value, from, place);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = cuda_on_cpu::kWarpSize,
                  cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  const int lane = cuda_on_cpu::lane(), from = lane ^ lane_mask;
  const bool within = from < cuda_on_cpu::segment_begin(width) + width;
  return cuda_on_cpu::shuffle(mask, value, within ? from : lane, place);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = cuda_on_cpu::kWarpSize,
                   cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  const int lane = cuda_on_cpu::lane(), from = lane + static_cast<int>(delta);
  const bool within = from < cuda_on_cpu::segment_begin(width) + width;
  return cuda_on_cpu::shuffle(mask, value, within ? from : lane, place);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = cuda_on_cpu::kWarpSize,
                 cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  const int lane = cuda_on_cpu::lane(), from = lane - static_cast<int>(delta);
  const bool within = from >= cuda_on_cpu::segment_begin(width);
  return cuda_on_cpu::shuffle(mask, value, within ? from : lane, place);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  const cuda_on_cpu::WarpValues warp =
      cuda_on_cpu::cuda_on_cpu_gather_warp(mask, predicate != 0 ? 1 : 0, place);
  unsigned set = 0;
  for (int lane = 0; lane < cuda_on_cpu::kWarpSize; ++lane) {
    const unsigned bit = 1U << lane;
    if ((warp.lanes & bit) != 0 && warp.values[lane] != 0) set |= bit;
  }
  return set;
}
inline int __any_sync(unsigned mask, int predicate,
                      cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  return __ballot_sync(mask, predicate, place) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      cuda_on_cpu::Place place = cuda_on_cpu::Place::current()) {
  return __ballot_sync(mask, predicate == 0 ? 1 : 0, place) == 0 ? 1 : 0;
}
