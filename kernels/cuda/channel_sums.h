// Sums over all elements of every channel of activations, in two stages: blocks each take a part of
// the elements of some channels, then the parts are joined channel by channel. How many parts there
// are follows from the shapes alone.
//
// Letters: N batch, C channels, S the product of the other dims: x[N,C,S], or in memory [N S, C]
// (channels-last, or S = 1).
//
// Sums is an operation like MomentSums: State of a thread, add(State&, a, b, constant) for elements
// a and b of the two operands (b 0 where there is one) and the channel's constant, what becomes of
// it (Result), and how two of these are joined.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/float_element.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"
#include "kernels/cuda/reduce.h"

namespace mezzo::kernels::cuda {

// Mean and squared distances from it. A thread adds up distances from the first element it sees,
// so that a mean far from zero costs no digits.
template <typename T>
struct MomentSums {
  struct State {
    T shift, sum, squares, count;
  };
  using Result = Moments<T>;
  __device__ static State nothing() { return {T(0), T(0), T(0), T(0)}; }
  __device__ static void add(State& state, T a, T, T) {
    if (state.count == T(0)) state.shift = a;
    const T distance = a - state.shift;
    state.sum += distance;
    state.squares += distance * distance;
    state.count += T(1);
  }
  __device__ static Result result(const State& state) {
    if (state.count == T(0)) return {T(0), T(0), T(0)};
    const T mean = state.sum / state.count;  // from the shift
    const T squares = state.squares - state.sum * mean;
    return {state.count, state.shift + mean, squares < T(0) ? T(0) : squares};
  }
  __device__ static Result none() { return {T(0), T(0), T(0)}; }
  using Join = JoinMoments;
};

// Sum of a, and of a (b - constant).
template <typename T>
struct ProductSums {
  using State = Pair<T>;
  using Result = Pair<T>;
  __device__ static State nothing() { return {T(0), T(0)}; }
  __device__ static void add(State& state, T a, T b, T constant) {
    state.first += a;
    state.second += a * (b - constant);
  }
  __device__ static Result result(const State& state) { return state; }
  __device__ static Result none() { return nothing(); }
  using Join = PairSum;
};

inline constexpr int kChannelPack = 8;  // neighbours that a thread takes at a time
inline constexpr int kJoinTurns = 16;   // threads that join the parts of one channel

struct ChannelShape {
  Int images = 0, channels = 0, pixels = 1;
  bool columns = false;  // a channel's elements lie C apart; else S neighbours per image

  Int per_channel() const { return images * pixels; }
  Int elems() const { return images * channels * pixels; }
};

inline ChannelShape channel_shape(const TensorDesc& x) {
  ChannelShape shape;
  shape.images = x.dims[0];
  shape.channels = x.dims[1];
  shape.pixels = dims_product(x.dims, 2, x.dims.size());
  shape.columns = is_channels_last(x) || shape.pixels == 1;
  return shape;
}

// parts[part, channel]; blockIdx.x: the channel, blockIdx.y: the part. Packed: S is a multiple of
// kChannelPack and the operands are aligned.
template <typename T, template <typename> class Sums>
__global__ void __launch_bounds__(kBlockThreads)
    sums_of_planes(FloatsIn a, FloatsIn b, FloatsIn constants, typename Sums<T>::Result* parts,
                   Int images, Int channels, Divisor pixels, int packed) {
  const Int channel = blockIdx.x;
  const Int width = packed != 0 ? kChannelPack : 1;
  const Int units = images * pixels.value() / width;
  const Int part = (units + gridDim.y - 1) / gridDim.y;
  const Int first = blockIdx.y * part;
  const Int last = first + part < units ? first + part : units;
  const T constant = constants.data != nullptr ? load_float<T>(constants, channel) : T(0);
  auto state = Sums<T>::nothing();
  for (Int unit = first + threadIdx.x; unit < last; unit += blockDim.x) {
    Int pixel = 0;
    const Int image = pixels.divide(unit * width, pixel);
    const Int at = (image * channels + channel) * pixels.value() + pixel;
    if (packed == 0) {
      const T y = b.data != nullptr ? load_float<T>(b, at) : T(0);
      Sums<T>::add(state, load_float<T>(a, at), y, constant);
      continue;
    }
    T x[kChannelPack], y[kChannelPack] = {};
    load_packed(a, at, x);
    if (b.data != nullptr) load_packed(b, at, y);
#pragma unroll
    for (int k = 0; k < kChannelPack; ++k) Sums<T>::add(state, x[k], y[k], constant);
  }
  using Join = typename Sums<T>::Join;
  const auto sums = block_reduce(Sums<T>::result(state), Join(), Sums<T>::none());
  if (threadIdx.x == 0) parts[blockIdx.y * channels + channel] = sums;
}

// The same for [rows, channels]. Threads of a block: `width` across, each with kPack neighbouring
// channels, the others further down; width a power of 2, at most a warp.
// blockIdx.x: the block's channels, blockIdx.y: the part.
template <typename T, template <typename> class Sums, int kPack>
__global__ void __launch_bounds__(kBlockThreads)
    sums_of_columns(FloatsIn a, FloatsIn b, FloatsIn constants, typename Sums<T>::Result* parts,
                    Int rows, Int channels, int width) {
  using Result = typename Sums<T>::Result;
  using Join = typename Sums<T>::Join;
  constexpr int kWarps = kBlockThreads / kWarpThreads;
  __shared__ Result of_warp[kWarps][kWarpThreads][kPack];
  const int thread = static_cast<int>(threadIdx.x);
  const int across = thread % width, height = kBlockThreads / width;
  const Int channel = (Int{blockIdx.x} * width + across) * kPack;
  const Int part = (rows + gridDim.y - 1) / gridDim.y;
  const Int first = blockIdx.y * part;
  const Int last = first + part < rows ? first + part : rows;
  typename Sums<T>::State states[kPack];
  T constant[kPack] = {}, x[kPack], y[kPack] = {};
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    states[k] = Sums<T>::nothing();
    if (constants.data != nullptr && channel < channels) {
      constant[k] = load_float<T>(constants, channel + k);
    }
  }
  for (Int row = first + thread / width; channel < channels && row < last; row += height) {
    const Int at = row * channels + channel;
    load_packed(a, at, x);
    if (b.data != nullptr) load_packed(b, at, y);
#pragma unroll
    for (int k = 0; k < kPack; ++k) Sums<T>::add(states[k], x[k], y[k], constant[k]);
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    Result sums = Sums<T>::result(states[k]);
    for (int distance = kWarpThreads / 2; distance >= width; distance /= 2) {
      sums = Join()(sums, internal::shuffle_down(sums, distance));
    }
    if (thread % kWarpThreads < width) of_warp[thread / kWarpThreads][across][k] = sums;
  }
  __syncthreads();
  const int mine = thread / kPack;  // threads across the block's channels, to write them in order
  const Int column = Int{blockIdx.x} * width * kPack + thread;
  if (mine >= width || column >= channels) return;
  Result sums = of_warp[0][mine][thread % kPack];
  for (int warp = 1; warp < kWarps; ++warp) {
    sums = Join()(sums, of_warp[warp][mine][thread % kPack]);
  }
  parts[blockIdx.y * channels + column] = sums;
}

// The joined parts of `channel`, for threads of turn 0; others get a share. All threads of a block
// of kWarpThreads (a channel each) by kJoinTurns call.
template <typename T, template <typename> class Sums>
__device__ typename Sums<T>::Result join_channel(const typename Sums<T>::Result* parts, Int count,
                                                 Int channels, Int channel) {
  using Result = typename Sums<T>::Result;
  using Join = typename Sums<T>::Join;
  __shared__ Result of_turn[kJoinTurns][kWarpThreads];
  Result sums = Sums<T>::none();
  for (Int p = threadIdx.y; channel < channels && p < count; p += kJoinTurns) {
    sums = Join()(sums, parts[p * channels + channel]);
  }
  of_turn[threadIdx.y][threadIdx.x] = sums;
  __syncthreads();
  if (threadIdx.y != 0) return sums;
  for (int turn = 1; turn < kJoinTurns; ++turn) sums = Join()(sums, of_turn[turn][threadIdx.x]);
  return sums;
}

// How the first stage is launched. REQUIRES: elems() > 0 and no more than 2^31 - 1 channels.
struct ChannelSumsPlan {
  ChannelShape shape;
  Int parts = 1;

  ChannelSumsPlan() = default;
  explicit ChannelSumsPlan(const ChannelShape& channels) : shape(channels) {
    constexpr Int kPartElems = 1 << 14;  // or more
    constexpr Int kMostBlocks = 2048, kMostParts = 512;
    const Int across =
        shape.columns ? ceil_div(shape.channels, Int{kWarpThreads} * kChannelPack) : shape.channels;
    const Int enough = shape.columns ? ceil_div(shape.elems() / across, kPartElems)
                                     : ceil_div(shape.per_channel(), kPartElems / 2);
    parts = std::clamp<Int>(std::min(enough, kMostBlocks / across), 1, kMostParts);
  }

  Int part_elems() const { return parts * shape.channels; }  // Results of all parts

  template <typename T, template <typename> class Sums>
  Status launch_parts(const FloatsIn& a, const FloatsIn& b, const FloatsIn& constants,
                      typename Sums<T>::Result* to, void* stream) const {
    const bool aligned = is_aligned_16({a.data, b.data});
    const auto down = static_cast<unsigned>(parts);
    if (!shape.columns) {
      const LaunchShape threads{dim3(static_cast<unsigned>(shape.channels), down),
                                dim3(kBlockThreads), 0};
      const int packed = aligned && shape.pixels % kChannelPack == 0 ? 1 : 0;
      return launch<sums_of_planes<T, Sums>>(threads, stream, a, b, constants, to, shape.images,
                                             shape.channels, Divisor(shape.pixels), packed);
    }
    const Int rows = shape.per_channel();
    const bool packed = aligned && shape.channels % kChannelPack == 0;
    const Int across = packed ? shape.channels / kChannelPack : shape.channels;
    int width = 1;
    while (width < kWarpThreads && width < across) width *= 2;
    const LaunchShape threads{dim3(static_cast<unsigned>(ceil_div(across, width)), down),
                              dim3(kBlockThreads), 0};
    if (packed) {
      return launch<sums_of_columns<T, Sums, kChannelPack>>(threads, stream, a, b, constants, to,
                                                            rows, shape.channels, width);
    }
    return launch<sums_of_columns<T, Sums, 1>>(threads, stream, a, b, constants, to, rows,
                                               shape.channels, width);
  }

  // Of the kernel that calls join_channel().
  LaunchShape join_shape() const {
    return {dim3(static_cast<unsigned>(ceil_div(shape.channels, kWarpThreads))),
            dim3(kWarpThreads, kJoinTurns), 0};
  }
};

}  // namespace mezzo::kernels::cuda
