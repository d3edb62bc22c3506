#include "kernels/cpu/batch_norm.h"

namespace mezzo::kernels::cpu {

// Up to so many pixels the runs would be too short to be worth a call each.
constexpr Int kFewPixels = 128;

ChannelShape ChannelShape::of(const TensorDesc& x) {
  ChannelShape shape;
  shape.n = x.dims[0];
  shape.channels = x.dims[1];
  for (std::size_t dim = 2; dim < x.dims.size(); ++dim) shape.pixels *= x.dims[dim];
  shape.channels_last = x.layout == Layout::kChannelsLast;
  shape.columns = shape.channels_last || shape.pixels <= kFewPixels;
  return shape;
}

const float* read_rows(const Isa& isa, const ChannelShape& shape, DType dtype, const void* data,
                       Int row, Int rows, Int column, Int columns, float* room) {
  const Int width = shape.width();
  if (columns == width) return floats(isa, dtype, data, row * width, rows * width, room);
  for (Int r = 0; r < rows; ++r) {
    isa.unpack(dtype, at(data, (row + r) * width + column, dtype), room + r * columns, columns);
  }
  return room;
}

float* rows_target(const ChannelShape& shape, DType dtype, void* data, Int row, Int columns,
                   float* room) {
  const bool dense = columns == shape.width();
  return dense ? float_target(dtype, data, row * columns, room) : room;
}

void write_rows(const Isa& isa, const ChannelShape& shape, DType dtype, const float* values,
                void* data, Int row, Int rows, Int column, Int columns) {
  const Int width = shape.width();
  if (columns == width) return flush(isa, dtype, values, data, row * width, rows * width);
  for (Int r = 0; r < rows; ++r) {
    isa.pack(dtype, values + r * columns, at(data, (row + r) * width + column, dtype), columns);
  }
}

void spread_channels(const ChannelShape& shape, const float* per_channel, float* per_column) {
  const Int repeat = shape.columns_per_channel();
  for (Int c = 0; c < shape.channels; ++c) {
    std::fill_n(per_column + c * repeat, repeat, per_channel[c]);
  }
}

}  // namespace mezzo::kernels::cpu
