// What BatchNormalization and its gradient share: how channels lie in memory.
//
// Letters: N batch, C channels, S pixels. Two forms:
//   runs     row-major with many pixels: channel c owns N runs of S neighbours
//   columns  R rows of K numbers, every column belonging to one channel: channels-last (R = N S,
//            K = C, one column per channel) and row-major with few pixels (R = N, K = C S,
//            S neighbouring columns per channel)
// Sums over columns are taken per tile of columns and chunk of rows; the parts meet in the
// workspace and are joined in order, so results do not depend on the threads.
#pragma once

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {

struct ChannelShape {
  bool columns = false;
  Int n = 1, channels = 1, pixels = 1;

  static ChannelShape of(const TensorDesc& x);

  Int per_channel() const { return n * pixels; }
  Int elems() const { return n * channels * pixels; }
  bool channels_last = false;

  // Columns form.
  Int rows() const { return channels_last ? n * pixels : n; }
  Int width() const { return channels_last ? channels : channels * pixels; }
  Int columns_per_channel() const { return channels_last ? 1 : pixels; }
  Int tile() const { return std::min(width(), kBlock); }
  Int tiles() const { return ceil_div(width(), tile()); }
  Int chunks() const { return std::clamp<Int>(rows() * tile() / 32768, 1, 32); }
  Int chunk_begin(Int chunk) const { return rows() * chunk / chunks(); }
};

// Numbers in a block of rows that is worked on at a time. Small, so that reading ahead in memory
// goes on while a block is computed with.
inline constexpr Int kRowsBlock = 1024;

// Rows of a tile of columns, dense, in `room` (kRowsBlock floats) unless they lie so already.
const float* read_rows(const Isa& isa, const ChannelShape& shape, DType dtype, const void* data,
                       Int row, Int rows, Int column, Int columns, float* room);
// Where results of these rows go, and the way from there to the tensor.
float* rows_target(const ChannelShape& shape, DType dtype, void* data, Int row, Int columns,
                   float* room);
void write_rows(const Isa& isa, const ChannelShape& shape, DType dtype, const float* values,
                void* data, Int row, Int rows, Int column, Int columns);

// visit(chunk, first row, rows, first column, columns) for blocks of rows that cover one unit;
// units: chunk-major over chunks x tiles.
template <typename Visit>
void for_row_blocks(const ChannelShape& shape, Int unit, Visit&& visit) {
  const Int chunk = unit / shape.tiles();
  const Int column = unit % shape.tiles() * shape.tile();
  const Int columns = std::min(shape.tile(), shape.width() - column);
  const Int at_once = std::max<Int>(1, kRowsBlock / columns);
  const Int end = shape.chunk_begin(chunk + 1);
  for (Int row = shape.chunk_begin(chunk); row < end; row += at_once) {
    visit(chunk, row, std::min(at_once, end - row), column, columns);
  }
}

// The number of channel c in an operand of one number per channel.
inline float read_one(const Isa& isa, DType dtype, const void* data, Int c) {
  float value;
  isa.unpack(dtype, at(data, c, dtype), &value, 1);
  return value;
}

// per_column[k] = per_channel[channel of k].
void spread_channels(const ChannelShape& shape, const float* per_channel, float* per_column);

}  // namespace mezzo::kernels::cpu
