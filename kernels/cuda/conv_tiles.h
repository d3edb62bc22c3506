// Convolutions as products of matrices whose elements are looked up where they are needed:
// result[rows, columns] = sum over depth of a[row, depth] b[depth, column], group by group.
//
// Letters: N batch, C channels of x, M channels of y, G groups, taps of the window.
//
//   product   rows  columns       depth       a            b                    result
//   kForward  M/G   N out pixels  C/G taps    w[m,c,k]     x[n,c,o and k]       y[n,m,o]
//   kInput    C/G   N in pixels   M/G taps    w[m,c,k]     dy[n,m,p and k]      dx[n,c,p]
//   kWeight   M/G   C/G taps      N out px.   dy[n,m,o]    x[n,c,o and k]       dw[m,c,k]
//
// where o and k (p and k) meet no element, b is 0. A block computes a tile of the result; tiles of
// a and b along the depth lie in shared memory. Sums run along the depth in rising order, in T;
// kWeight may be cut into parts along it.
#pragma once

#include <cstdint>

#include "kernels/cuda/float_element.h"
#include "kernels/cuda/windows.h"

namespace mezzo::kernels::cuda {

enum class ConvProduct : std::uint8_t { kForward, kInput, kWeight };

// One axis of the windows in 32 bits, which also hold sums and products as positions need them.
struct ConvAxis {
  std::int32_t in = 1, out = 1, stride = 1, dilation = 1, pad_begin = 0;
  Divisor by_in, by_out, by_kernel, by_stride;
};

// Elements between neighbours of activations along batch, channels and pixels; of weights along
// their result channels, channels and taps.
struct ConvStrides {
  Int image = 0, channel = 0, pixel = 0;
};

// Rows, columns and depth stay below 2^31: they are numbered in 32 bits, elements in 64.
struct ConvPlan {
  ConvAxis axis[kSpatial];
  std::int32_t groups = 1, splits = 1;
  std::int32_t x_channels = 0, y_channels = 0;  // of a group
  std::int32_t taps = 1;
  std::int32_t rows = 0, columns = 0, depth = 0, split_depth = 0;
  ConvStrides x, w, y;
};

// A number of a tap, pixel or window as three places; `rest`: channel or image.
struct ConvPlace {
  std::int32_t at[kSpatial], rest;
};
template <Divisor ConvAxis::*kSize>
__device__ __forceinline__ ConvPlace decode_place(const ConvPlan& conv, std::int32_t number) {
  ConvPlace place;
  auto left = static_cast<std::uint32_t>(number);
#pragma unroll
  for (int i = kSpatial - 1; i >= 0; --i) {
    const Divisor& size = conv.axis[i].*kSize;
    const std::uint32_t next = size.narrow_quotient(left);
    place.at[i] = static_cast<std::int32_t>(left - next * static_cast<std::uint32_t>(size.value()));
    left = next;
  }
  place.rest = static_cast<std::int32_t>(left);
  return place;
}

// The pixel of x under tap `tap` of window `o`, -1: padding.
__device__ __forceinline__ std::int32_t pixel_under(const ConvPlan& conv, const ConvPlace& o,
                                                    const ConvPlace& tap) {
  std::int32_t pixel = 0;
  bool inside = true;
#pragma unroll
  for (int i = 0; i < kSpatial; ++i) {
    const ConvAxis& axis = conv.axis[i];
    const std::int32_t at = o.at[i] * axis.stride - axis.pad_begin + tap.at[i] * axis.dilation;
    inside = inside && at >= 0 && at < axis.in;
    pixel = pixel * axis.in + at;
  }
  return inside ? pixel : -1;
}

// The window whose tap `tap` lies on pixel p of x, -1: none.
__device__ __forceinline__ std::int32_t window_over(const ConvPlan& conv, const ConvPlace& p,
                                                    const ConvPlace& tap) {
  std::int32_t window = 0;
  bool exists = true;
#pragma unroll
  for (int i = 0; i < kSpatial; ++i) {
    const ConvAxis& axis = conv.axis[i];
    const std::int32_t start = p.at[i] + axis.pad_begin - tap.at[i] * axis.dilation;
    const auto o = static_cast<std::int32_t>(
        axis.by_stride.narrow_quotient(static_cast<std::uint32_t>(start < 0 ? 0 : start)));
    exists = exists && start >= 0 && o < axis.out && o * axis.stride == start;
    window = window * axis.out + o;
  }
  return exists ? window : -1;
}

// A column of b as a thread keeps it while it goes down the depth.
struct ConvColumn {
  ConvPlace place;  // of the window (kForward), the pixel (kInput) or the tap (kWeight)
  Int base;         // offset of the image, or of the channel
};

template <ConvProduct kProduct>
__device__ __forceinline__ ConvColumn conv_column(const ConvPlan& conv, std::int32_t column,
                                                  std::int32_t group) {
  ConvColumn found;
  if constexpr (kProduct == ConvProduct::kForward) {
    found.place = decode_place<&ConvAxis::by_out>(conv, column);
    found.base = found.place.rest * conv.x.image + Int{group} * conv.x_channels * conv.x.channel;
  } else if constexpr (kProduct == ConvProduct::kInput) {
    found.place = decode_place<&ConvAxis::by_in>(conv, column);
    found.base = found.place.rest * conv.y.image + Int{group} * conv.y_channels * conv.y.channel;
  } else {
    found.place = decode_place<&ConvAxis::by_kernel>(conv, column);
    found.base = (Int{group} * conv.x_channels + found.place.rest) * conv.x.channel;
  }
  return found;
}

// b[depth, column]; `from`: x or dy.
template <typename T, ConvProduct kProduct>
__device__ __forceinline__ T load_b(const ConvPlan& conv, const FloatsIn& from, std::int32_t depth,
                                    const ConvColumn& column) {
  Int at = column.base;
  std::int32_t found = -1;
  if constexpr (kProduct == ConvProduct::kForward) {
    const ConvPlace tap = decode_place<&ConvAxis::by_kernel>(conv, depth);
    found = pixel_under(conv, column.place, tap);
    at += tap.rest * conv.x.channel + found * conv.x.pixel;
  } else if constexpr (kProduct == ConvProduct::kInput) {
    const ConvPlace tap = decode_place<&ConvAxis::by_kernel>(conv, depth);
    found = window_over(conv, column.place, tap);
    at += tap.rest * conv.y.channel + found * conv.y.pixel;
  } else {
    const ConvPlace o = decode_place<&ConvAxis::by_out>(conv, depth);
    found = pixel_under(conv, o, column.place);
    at += o.rest * conv.x.image + found * conv.x.pixel;
  }
  return found < 0 ? T(0) : load_float<T>(from, at);
}

// Where a channel's tap lies among those of one result channel.
__device__ __forceinline__ Int weight_place(const ConvPlan& conv, std::int32_t number) {
  if (conv.w.pixel == 1) return number;  // channels first, or a single one
  const std::int32_t channel = decode_place<&ConvAxis::by_kernel>(conv, number).rest;
  return channel * conv.w.channel + (number - channel * conv.taps) * conv.w.pixel;
}

// a[row, depth]; `from`: w or dy.
template <typename T, ConvProduct kProduct>
__device__ __forceinline__ T load_a(const ConvPlan& conv, const FloatsIn& from, std::int32_t row,
                                    std::int32_t depth, std::int32_t group) {
  Int at = 0;
  if constexpr (kProduct == ConvProduct::kForward) {
    at = (Int{group} * conv.y_channels + row) * conv.w.image + weight_place(conv, depth);
  } else if constexpr (kProduct == ConvProduct::kInput) {
    const ConvPlace tap = decode_place<&ConvAxis::by_kernel>(conv, depth);
    at = (Int{group} * conv.y_channels + tap.rest) * conv.w.image + row * conv.w.channel +
         (depth - tap.rest * conv.taps) * conv.w.pixel;
  } else {
    const ConvPlace o = decode_place<&ConvAxis::by_out>(conv, depth);
    const std::int32_t window = (o.at[0] * conv.axis[1].out + o.at[1]) * conv.axis[2].out + o.at[2];
    at = o.rest * conv.y.image + (Int{group} * conv.y_channels + row) * conv.y.channel +
         window * conv.y.pixel;
  }
  return load_float<T>(from, at);
}

// Where result[0, column] of the group lies, and how far its rows are apart.
template <ConvProduct kProduct>
__device__ __forceinline__ Int result_column(const ConvPlan& conv, std::int32_t column,
                                             std::int32_t group) {
  if constexpr (kProduct == ConvProduct::kForward) {
    const ConvPlace o = decode_place<&ConvAxis::by_out>(conv, column);
    const std::int32_t window = (o.at[0] * conv.axis[1].out + o.at[1]) * conv.axis[2].out + o.at[2];
    return o.rest * conv.y.image + Int{group} * conv.y_channels * conv.y.channel +
           window * conv.y.pixel;
  } else if constexpr (kProduct == ConvProduct::kInput) {
    const ConvPlace p = decode_place<&ConvAxis::by_in>(conv, column);
    const std::int32_t pixel = (p.at[0] * conv.axis[1].in + p.at[1]) * conv.axis[2].in + p.at[2];
    return p.rest * conv.x.image + Int{group} * conv.x_channels * conv.x.channel +
           pixel * conv.x.pixel;
  } else {
    return Int{group} * conv.y_channels * conv.w.image + weight_place(conv, column);
  }
}
template <ConvProduct kProduct>
__device__ __forceinline__ Int result_row_step(const ConvPlan& conv) {
  if constexpr (kProduct == ConvProduct::kForward) return conv.y.channel;
  if constexpr (kProduct == ConvProduct::kInput) return conv.x.channel;
  return conv.w.image;
}

inline constexpr int kTileDepth = 16;

// Threads of a block hold kRows x kColumns of the result, kThreadRows x kThreadColumns each.
template <int kTileRows, int kTileColumns, int kOwnRows, int kOwnColumns>
struct ConvTile {
  static constexpr int kRows = kTileRows, kColumns = kTileColumns;
  static constexpr int kThreadRows = kOwnRows, kThreadColumns = kOwnColumns;
  static constexpr int kAcross = kColumns / kThreadColumns;
  static constexpr int kThreads = kRows / kThreadRows * kAcross;

  // The thread's r-th row and c-th column within the tile.
  __device__ static int row(int r) {
    return static_cast<int>(threadIdx.x) / kAcross * kThreadRows + r;
  }
  __device__ static int column(int c) {
    return static_cast<int>(threadIdx.x) % kAcross + c * kAcross;
  }
};
using WideTile = ConvTile<64, 64, 4, 4>;
using FlatTile = ConvTile<4, 256, 4, 1>;  // few rows, as of depthwise convolutions

// One tile of sums over depth begin .. end - 1.
template <typename T, ConvProduct kProduct, typename Tile>
struct ConvSums {
  T sums[Tile::kThreadRows][Tile::kThreadColumns];

  __device__ __forceinline__ void add(const ConvPlan& conv, const FloatsIn& a, const FloatsIn& b,
                                      std::int32_t group, std::int32_t first_row,
                                      std::int32_t first_column, std::int32_t begin,
                                      std::int32_t end) {
    constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns;
    constexpr int kSkew = 1;  // keeps threads that write a column of the tile in different banks
    __shared__ T a_tile[kTileDepth][kRows + kSkew];
    __shared__ T b_tile[kTileDepth][kColumns + kSkew];
    const int thread = static_cast<int>(threadIdx.x);
    const int b_column = thread % kColumns;
    const bool has_column = first_column + b_column < conv.columns;
    ConvColumn column{};
    if (has_column) column = conv_column<kProduct>(conv, first_column + b_column, group);
    for (std::int32_t depth = begin; depth < end; depth += kTileDepth) {
#pragma unroll 1
      for (int i = thread; i < kRows * kTileDepth; i += Tile::kThreads) {
        const int d = i % kTileDepth, row = i / kTileDepth;
        const bool exists = d < end - depth && row < conv.rows - first_row;
        a_tile[d][row] =
            exists ? load_a<T, kProduct>(conv, a, first_row + row, depth + d, group) : T(0);
      }
#pragma unroll 1
      for (int d = thread / kColumns; d < kTileDepth; d += Tile::kThreads / kColumns) {
        const bool exists = has_column && d < end - depth;
        b_tile[d][b_column] = exists ? load_b<T, kProduct>(conv, b, depth + d, column) : T(0);
      }
      __syncthreads();
#pragma unroll 4
      for (int d = 0; d < kTileDepth; ++d) {
        T left[Tile::kThreadRows], right[Tile::kThreadColumns];
#pragma unroll
        for (int r = 0; r < Tile::kThreadRows; ++r) left[r] = a_tile[d][Tile::row(r)];
#pragma unroll
        for (int c = 0; c < Tile::kThreadColumns; ++c) right[c] = b_tile[d][Tile::column(c)];
#pragma unroll
        for (int r = 0; r < Tile::kThreadRows; ++r) {
#pragma unroll
          for (int c = 0; c < Tile::kThreadColumns; ++c) sums[r][c] += left[r] * right[c];
        }
      }
      __syncthreads();
    }
  }

  // begin: of the split's sums in `to`.
  __device__ __forceinline__ void store(const ConvPlan& conv, const FloatsIn& bias,
                                        const FloatsOut& to, Int begin, std::int32_t group,
                                        std::int32_t first_row, std::int32_t first_column) const {
    with_float(to.dtype, [&](auto tag) {
      using U = typename decltype(tag)::Type;
#pragma unroll
      for (int c = 0; c < Tile::kThreadColumns; ++c) {
        const int at = Tile::column(c);
        if (at >= conv.columns - first_column) continue;
        U* column = static_cast<U*>(to.data) + begin +
                    result_column<kProduct>(conv, first_column + at, group);
#pragma unroll
        for (int r = 0; r < Tile::kThreadRows; ++r) {
          const std::int32_t row = first_row + Tile::row(r);
          if (row >= conv.rows) continue;
          T sum = sums[r][c];
          if (bias.data != nullptr) sum += load_float<T>(bias, Int{group} * conv.rows + row);
          column[row * result_row_step<kProduct>(conv)] = element_of<U>(sum);
        }
      }
    });
  }
};

// bias, by result channel, may be absent. split_elems: 0, or with several splits, whose sums go to
// `to` one after the other, the elements of the result.
// blockIdx.x: tile of columns, .y: of rows, .z: group and split.
template <typename T, ConvProduct kProduct, typename Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    conv_product(ConvPlan conv, FloatsIn a, FloatsIn b, FloatsIn bias, FloatsOut to,
                 Int split_elems) {
  const auto first_column = static_cast<std::int32_t>(blockIdx.x) * Tile::kColumns;
  const auto row_step = static_cast<std::int32_t>(gridDim.y) * Tile::kRows;
  for (Int z = blockIdx.z; z < Int{conv.groups} * conv.splits; z += gridDim.z) {
    const auto group = static_cast<std::int32_t>(z / conv.splits);
    const auto split = static_cast<std::int32_t>(z % conv.splits);
    const std::int32_t begin = split * conv.split_depth;
    const std::int32_t left = conv.depth - begin;
    const std::int32_t end = begin + (left < conv.split_depth ? left : conv.split_depth);
    for (auto row = static_cast<std::int32_t>(blockIdx.y) * Tile::kRows; row < conv.rows;
         row += row_step) {
      ConvSums<T, kProduct, Tile> tile{};
      tile.add(conv, a, b, group, row, first_column, begin, end);
      tile.store(conv, bias, to, split * split_elems, group, row, first_column);
    }
  }
}

}  // namespace mezzo::kernels::cuda
