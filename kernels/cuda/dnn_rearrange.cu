#include "kernels/cuda/dnn_rearrange.h"

#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"

namespace mezzo::kernels::cuda::dnn {

namespace {

constexpr int kTile = 32;
constexpr int kTileRows = 8;  // rows of a tile that a block's threads cover at once
constexpr int kNeighbours = 8;
constexpr std::int64_t kMostBlocks = 1 << 16;

std::int64_t tiles(std::int64_t size) { return (size + kTile - 1) / kTile; }

}  // namespace

// A block moves one tile of kTile x kTile after another by way of shared memory, so that reads and
// writes are both of neighbours. Block: kTile x kTileRows threads.
__global__ void transpose_planes(Rearrangement how, std::int64_t tile_rows,
                                 std::int64_t tile_columns, const void* x, void* y) {
  __shared__ float tile[kTile][kTile + 1];  // a column more: no two threads meet in a bank
  const std::int64_t per_plane = tile_rows * tile_columns;
  for (std::int64_t t = blockIdx.x; t < how.planes * per_plane; t += gridDim.x) {
    const std::int64_t plane = t / per_plane;
    const std::int64_t row = t % per_plane / tile_columns * kTile;
    const std::int64_t column = t % tile_columns * kTile;
    const std::int64_t start = plane * how.rows * how.columns;
    for (int i = threadIdx.y; i < kTile; i += kTileRows) {
      const std::int64_t r = row + i;
      const std::int64_t c = column + threadIdx.x;
      if (r < how.rows && c < how.columns) {
        tile[i][threadIdx.x] = load_element<float>(x, start + r * how.columns + c, how.from);
      }
    }
    __syncthreads();
    for (int i = threadIdx.y; i < kTile; i += kTileRows) {
      const std::int64_t c = column + i;
      const std::int64_t r = row + threadIdx.x;
      if (r < how.rows && c < how.columns) {
        store_element(y, start + c * how.rows + r, how.to, tile[threadIdx.x][i]);
      }
    }
    __syncthreads();
  }
}

// x -> y, `elems` of them in the same order.
__global__ void cast_elements(std::int64_t elems, DType from, DType to, const void* x, void* y) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * kNeighbours;
  std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kNeighbours;
  for (; at < elems; at += step) {
    const std::int64_t left = elems - at;
    const int count = left < kNeighbours ? static_cast<int>(left) : kNeighbours;
    float values[kNeighbours];
    load_elements(x, at, from, values, count);
    store_elements(y, at, to, values, count);
  }
}

__global__ void add_bias(ChannelBias how, const void* bias, float* y) {
  const std::int64_t elems = how.n * how.channels * how.places;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < elems; i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t c =
        how.layout == Layout::kChannelsLast ? i % how.channels : i / how.places % how.channels;
    y[i] += load_element<float>(bias, c, how.dtype);
  }
}

Rearrangement between(const TensorDesc& from, Layout layout, DType dtype) {
  Rearrangement how{1, 1, 1, from.dtype, dtype};
  if (from.layout == layout || !from.layout_matters()) {
    how.columns = from.elems();
    return how;
  }
  std::int64_t places = 1;
  for (std::size_t i = 2; i < from.dims.size(); ++i) places *= from.dims[i];
  how.planes = from.dims[0];
  how.rows = layout == Layout::kChannelsLast ? from.dims[1] : places;
  how.columns = layout == Layout::kChannelsLast ? places : from.dims[1];
  return how;
}

Status rearrange(const Rearrangement& how, const void* x, void* y, void* stream) {
  const std::int64_t elems = how.planes * how.rows * how.columns;
  if (elems == 0) return ok_status();
  if (how.rows == 1 || how.columns == 1) {
    return launch<cast_elements>(shape_for((elems + kNeighbours - 1) / kNeighbours, kMostBlocks),
                                 stream, elems, how.from, how.to, x, y);
  }
  const std::int64_t tile_rows = tiles(how.rows);
  const std::int64_t tile_columns = tiles(how.columns);
  const std::int64_t blocks = limit_blocks(how.planes * tile_rows * tile_columns, kMostBlocks);
  return launch<transpose_planes>({dim3(static_cast<unsigned>(blocks)), dim3(kTile, kTileRows), 0},
                                  stream, how, tile_rows, tile_columns, x, y);
}

Status add_channel_bias(const ChannelBias& how, const void* bias, float* y, void* stream) {
  const std::int64_t elems = how.n * how.channels * how.places;
  if (elems == 0) return ok_status();
  return launch<add_bias>(shape_for(elems, kMostBlocks), stream, how, bias, y);
}

}  // namespace mezzo::kernels::cuda::dnn
