// What the kernels of attention share: blocks that hold kRows rows and go through tiles of others
// in shared memory. Formulas: attention.cu.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "kernels/attention_shape.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"

namespace mezzo::kernels::cuda {

inline constexpr int kRows = 16;                 // of a block
inline constexpr int kThreads = 128;             // of a block
inline constexpr int kLanes = kThreads / kRows;  // that share a row
inline constexpr int kLargest = 256;             // size of a head
inline constexpr int kHeld = kLargest / kLanes;  // numbers of a row that a thread holds
inline constexpr std::size_t kMostShared = 46 << 10;

// What kernels need of AttentionShape.
struct AttentionSizes {
  Int heads, groups, queries, keys;
  int size, v_size, tile;  // tile: rows in shared memory beside the block's own
  double scale;
  bool causal;
  Int bias_strides[4];
  AttentionSteps q, k, v, y;

  __device__ Int seen(Int t) const {
    if (!causal) return keys;
    const Int last = t + keys - queries + 1;
    return last < 0 ? 0 : last < keys ? last : keys;
  }
  // The first query that sees key s.
  __device__ Int first_query(Int s) const {
    if (!causal) return 0;
    const Int first = s - (keys - queries);
    return first < 0 ? 0 : first;
  }
  __device__ Int group_of(Int head) const { return head / (heads / groups); }
};

__device__ inline Int place_of(const AttentionSteps& steps, Int b, Int h, Int t) {
  return b * steps.batch + h * steps.head + t * steps.row;
}

// `count` rows of x, `step` elements apart from element `first` on, into `to`, whose rows lie
// width + 1 apart (threads that walk down a column then meet different banks); zeros up to `rows`.
template <typename T>
__device__ void load_rows(const FloatsIn& x, Int first, Int step, Int count, int rows, int width,
                          T* to) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += kThreads) {
    const int row = i / width, column = i % width;
    to[row * (width + 1) + column] =
        row < count ? load_float<T>(x, first + row * step + column) : T(0);
  }
}

inline constexpr int kAtOnce = 4;  // rows of a tile that a thread multiplies with its own

// products[j] = the product of `a` and row first + j kLanes of a tile of `rows`; of rows beyond the
// tile: whatever. An element of `a` is read once for all of them.
template <typename T>
__device__ void dots(const T* a, const T* tile, int first, int rows, int width,
                     T (&products)[kAtOnce]) {
  const T* row[kAtOnce];
#pragma unroll
  for (int j = 0; j < kAtOnce; ++j) {
    const int number = first + j * kLanes;
    row[j] = tile + (number < rows ? number : 0) * (width + 1);
    products[j] = T(0);
  }
  for (int i = 0; i < width; ++i) {
    const T own = a[i];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) products[j] += own * row[j][i];
  }
}

template <typename T>
constexpr T kLowest = -std::numeric_limits<T>::infinity();

// The score of query t and key s, whose product is known.
template <typename T>
__device__ T score(const AttentionSizes& sizes, const FloatsIn& bias, T product, Int b, Int head,
                   Int t, Int s) {
  T value = static_cast<T>(sizes.scale) * product;
  if (bias.data != nullptr) {
    value += load_float<T>(bias, b * sizes.bias_strides[0] + head * sizes.bias_strides[1] +
                                     t * sizes.bias_strides[2] + s * sizes.bias_strides[3]);
  }
  return value;
}

// sum[i] += weights[k] rows[k][lane + i kLanes] over `count` rows of `width`. A weight is read once
// for kColumns columns.
template <typename T>
__device__ void add_weighted(const T* weights, const T* rows, int count, int width, int lane,
                             T (&sum)[kHeld]) {
  constexpr int kColumns = 8;
#pragma unroll
  for (int first = 0; first < kHeld; first += kColumns) {
    const int column = lane + first * kLanes;
    if (column >= width) break;
    const auto add = [&](auto is_there) {
      for (int k = 0; k < count; ++k) {
        const T weight = weights[k];
        const T* row = rows + k * (width + 1) + column;
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
          if (is_there(i)) sum[first + i] += weight * row[i * kLanes];
        }
      }
    };
    if (column + (kColumns - 1) * kLanes < width) {
      add([](int) { return true; });
    } else {
      add([&](int i) { return column + i * kLanes < width; });
    }
  }
}

template <typename T>
__device__ void store_row(const FloatsOut& y, Int first, int width, int lane, T factor,
                          const T (&values)[kHeld]) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int column = lane + i * kLanes;
    if (column >= width) break;
    store_float(y, first + column, factor * values[i]);
  }
}

// ---- on the host

inline constexpr std::string_view kAttentionName = "cuda:attention";

inline AttentionSizes sizes_of(const AttentionShape& shape) {
  AttentionSizes sizes = {shape.heads,
                          shape.groups,
                          shape.queries,
                          shape.keys,
                          static_cast<int>(shape.size),
                          static_cast<int>(shape.v_size),
                          0,
                          shape.scale,
                          shape.causal,
                          {},
                          shape.q,
                          shape.k,
                          shape.v,
                          shape.y};
  std::copy(shape.bias_strides.begin(), shape.bias_strides.end(), sizes.bias_strides);
  return sizes;
}

// The largest tile for which `elems`(tile) numbers fit into shared memory; 0 if none does.
template <typename Elems>
int largest_tile(bool is_double, Elems elems) {
  const std::size_t bytes = is_double ? sizeof(double) : sizeof(float);
  for (int tile = 32; tile >= 4; tile /= 2) {
    if (static_cast<std::size_t>(elems(tile)) * bytes <= kMostShared) return tile;
  }
  return 0;
}

inline constexpr Int kMostBlocks = (Int{1} << 31) - 1;

inline LaunchShape blocks_for(Int units, std::size_t shared_bytes) {
  return {dim3(static_cast<unsigned>(units)), dim3(kThreads), shared_bytes};
}

inline Status check_sizes(const KernelRequest& request, const AttentionShape& shape) {
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *side) {
      if (is_channels_last(desc)) return unimplemented("channels-last operands");
      if (desc.present() && desc.elems() == 0) return unimplemented("empty operands");
    }
  }
  if (shape.size <= kLargest && shape.v_size <= kLargest) return ok_status();
  return unimplemented("heads of more than 256 numbers");
}

inline FloatsIn float_in(const KernelRequest& request, std::size_t i) {
  return {nullptr, operand(request, i).dtype};
}

}  // namespace mezzo::kernels::cuda
