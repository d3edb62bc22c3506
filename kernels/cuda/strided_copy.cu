#include "kernels/cuda/strided_copy.h"

#include <algorithm>
#include <array>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/unit.h"

namespace mezzo::kernels::cuda {

// Units a thread has on their way at once.
constexpr int kInFlight = 4;

template <typename U>
__global__ void copy_strided(StridedIndex<2> index, const U* from, U* to) {
  const Int threads = blockDim.x;
  const Int step = gridDim.x * threads * kInFlight;
  for (Int first = blockIdx.x * threads * kInFlight + threadIdx.x; first < index.elems;
       first += step) {
    U units[kInFlight];
    Int targets[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const Int number = first + k * threads;
      if (number >= index.elems) break;
      Int offsets[2];
      index.offsets(number, offsets);
      units[k] = from[offsets[0]];
      targets[k] = offsets[1];
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (first + k * threads < index.elems) to[targets[k]] = units[k];
    }
  }
}

// The target's runs hold one element over and over: 16 bytes of it are written at once.
template <typename U>
__global__ void copy_repeated(StridedIndex<2> index, const U* from, uint4* to) {
  constexpr int kTimes = static_cast<int>(sizeof(uint4) / sizeof(U));
  struct alignas(16) Repeated {
    U elements[kTimes];
  };
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < index.elems;
       number += step) {
    Int offsets[2];
    index.offsets(number, offsets);
    const U element = from[offsets[0]];
    Repeated run;
#pragma unroll
    for (int k = 0; k < kTimes; ++k) run.elements[k] = element;
    reinterpret_cast<Repeated*>(to)[offsets[1]] = run;
  }
}

template <typename U>
struct Tile {
  // Elements of a word that is read and written as one.
  static constexpr int kWord = sizeof(U) < 4 ? static_cast<int>(4 / sizeof(U)) : 1;
  static constexpr int kSide = 32 * kWord;
  static constexpr int kPitch =
      kSide + kWord;  // an odd number of words: columns meet no bank twice
  static constexpr int kRowThreads = 8;
  struct alignas(kWord * sizeof(U)) Word {
    U elements[kWord];
  };
};

// Block: 32 x kRowThreads threads.
template <typename U>
__global__ void copy_tiles(TilePlan plan, Divisor tile_rows, Divisor tile_columns, Int tiles,
                           const U* from, U* to) {
  using T = Tile<U>;
  using Word = typename T::Word;
  __shared__ Word shared[T::kSide * T::kPitch / T::kWord];
  U* tile = reinterpret_cast<U*>(shared);
  const int place = static_cast<int>(threadIdx.x) * T::kWord;
  for (Int number = blockIdx.x; number < tiles; number += gridDim.x) {
    Int column = 0;
    Int row = 0;
    Int offsets[2];
    plan.batches.offsets(tile_rows.divide(tile_columns.divide(number, column), row), offsets);
    row *= T::kSide;
    column *= T::kSide;
    const int rows = static_cast<int>(plan.rows - row < T::kSide ? plan.rows - row : T::kSide);
    const int columns =
        static_cast<int>(plan.columns - column < T::kSide ? plan.columns - column : T::kSide);
    const U* source = from + offsets[0] + row * plan.from_row + column;
    for (int r = threadIdx.y; r < rows; r += T::kRowThreads) {
      const U* line = source + r * plan.from_row;
      if (plan.wide_from != 0 && place + T::kWord <= columns) {
        *reinterpret_cast<Word*>(tile + r * T::kPitch + place) =
            *reinterpret_cast<const Word*>(line + place);
      } else {
        for (int c = place; c < place + T::kWord && c < columns; ++c) {
          tile[r * T::kPitch + c] = line[c];
        }
      }
    }
    __syncthreads();
    U* target = to + offsets[1] + column * plan.to_column + row;
    for (int c = threadIdx.y; c < columns; c += T::kRowThreads) {
      U* line = target + c * plan.to_column;
      if (plan.wide_to != 0 && place + T::kWord <= rows) {
        Word word;
#pragma unroll
        for (int k = 0; k < T::kWord; ++k) {
          word.elements[k] = tile[(place + k) * T::kPitch + c];
        }
        *reinterpret_cast<Word*>(line + place) = word;
      } else {
        for (int r = place; r < place + T::kWord && r < rows; ++r) {
          line[r] = tile[r * T::kPitch + c];
        }
      }
    }
    __syncthreads();
  }
}

namespace {

// Shorter dims are as well copied element by element.
constexpr Int kLeastTileSide = 8;
// Enough to fill a device several times over; each then takes one tile after another.
constexpr Int kMostTileBlocks = 2048;

template <typename U>
Status run_tiles(const TilePlan& plan, const U* from, U* to, void* stream) {
  const Int rows = ceil_div(plan.rows, Tile<U>::kSide);
  const Int columns = ceil_div(plan.columns, Tile<U>::kSide);
  const Int tiles = rows * columns * plan.batches.elems;
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(limit_blocks(tiles, kMostTileBlocks)));
  shape.block = dim3(32, Tile<U>::kRowThreads);
  return launch<copy_tiles<U>>(shape, stream, plan, Divisor(rows), Divisor(columns), tiles, from,
                               to);
}

}  // namespace

StridedCopy StridedCopy::make(Int element_bytes, const Dims& sizes, const Dims& from_strides,
                              const Dims& to_strides, const std::vector<std::size_t>& order,
                              Int from_start, Int to_start) {
  StridedCopy copy;
  copy.unit_bytes_ = element_bytes;
  copy.from_start_ = from_start;
  copy.to_start_ = to_start;
  std::vector<Axis> axes;
  for (const std::size_t d : order) {
    const Axis axis{sizes[d], from_strides[d], to_strides[d]};
    if (axis.size == 0) return {};
    if (axis.size == 1) continue;
    if (!axes.empty() && axes.back().from == axis.from * axis.size &&
        axes.back().to == axis.to * axis.size) {
      axes.back() = {axes.back().size * axis.size, axis.from, axis.to};
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({1, 1, 1});
  copy.choose(std::move(axes));
  return copy;
}

void StridedCopy::choose(std::vector<Axis> axes) {
  Axis& last = axes.back();
  if (last.from == 1 && last.to == 1) {
    // The widest unit that divides every run, stride and start.
    Int unit = common_unit(kWidestUnit / unit_bytes_, last.size, from_start_, to_start_);
    for (std::size_t a = 0; a + 1 < axes.size(); ++a) {
      unit = common_unit(unit, axes[a].from, axes[a].to);
    }
    if (axes.size() == 1) unit = 1;
    last.size /= unit;
    for (std::size_t a = 0; a + 1 < axes.size(); ++a) {
      axes[a].from /= unit;
      axes[a].to /= unit;
    }
    from_start_ /= unit;
    to_start_ /= unit;
    unit_bytes_ *= unit;
    way_ = axes.size() == 1 ? Way::kMemcpy : Way::kStrided;
  } else if (choose_tiles(axes)) {
    way_ = Way::kTiles;
    return;
  } else if (last.from == 0 && last.to == 1 && unit_bytes_ < kWidestUnit) {
    const Int times = kWidestUnit / unit_bytes_;
    Int unit = common_unit(times, last.size, to_start_);
    for (std::size_t a = 0; a + 1 < axes.size(); ++a) unit = common_unit(unit, axes[a].to);
    way_ = unit == times ? Way::kRepeat : Way::kStrided;
    if (way_ == Way::kRepeat) {
      last.size /= times;
      to_start_ /= times;
      for (std::size_t a = 0; a + 1 < axes.size(); ++a) axes[a].to /= times;
    }
  } else {
    way_ = Way::kStrided;
  }
  Dims sizes, from, to;
  for (const Axis& axis : axes) {
    sizes.push_back(axis.size);
    from.push_back(axis.from);
    to.push_back(axis.to);
  }
  index_ = make_index<2>(sizes, {from, to});
}

bool StridedCopy::choose_tiles(const std::vector<Axis>& axes) {
  const Axis& rows = axes.back();
  const auto columns =
      std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.from == 1; });
  if (columns == axes.end() || rows.to != 1 || rows.size < kLeastTileSide ||
      columns->size < kLeastTileSide) {
    return false;
  }
  const Int word = unit_bytes_ < 4 ? 4 / unit_bytes_ : 1;
  Int wide_from = common_unit(word, from_start_, rows.from);
  Int wide_to = common_unit(word, to_start_, columns->to);
  Dims sizes, from, to;
  for (auto axis = axes.begin(); axis + 1 != axes.end(); ++axis) {
    if (axis == columns) continue;
    sizes.push_back(axis->size);
    from.push_back(axis->from);
    to.push_back(axis->to);
    wide_from = common_unit(wide_from, axis->from);
    wide_to = common_unit(wide_to, axis->to);
  }
  tiles_.batches = make_index<2>(sizes, {from, to});
  tiles_.rows = rows.size;
  tiles_.columns = columns->size;
  tiles_.from_row = rows.from;
  tiles_.to_column = columns->to;
  tiles_.wide_from = wide_from == word ? 1 : 0;
  tiles_.wide_to = wide_to == word ? 1 : 0;
  return true;
}

Status StridedCopy::run(const void* from, void* to, void* stream) const {
  if (way_ == Way::kNothing) return ok_status();
  const auto shape = shape_for(ceil_div(index_.elems, kInFlight));
  return with_unit(unit_bytes_, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    const U* source = static_cast<const U*>(from) + from_start_;
    switch (way_) {
      case Way::kRepeat:
        return launch<copy_repeated<U>>(shape_for(index_.elems), stream, index_, source,
                                        static_cast<uint4*>(to) + to_start_);
      case Way::kTiles:
        return run_tiles<U>(tiles_, source, static_cast<U*>(to) + to_start_, stream);
      case Way::kMemcpy:
        return check("cudaMemcpyAsync",
                     cudaMemcpyAsync(static_cast<U*>(to) + to_start_, source,
                                     static_cast<std::size_t>(index_.elems) * sizeof(U),
                                     cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)));
      default:
        return launch<copy_strided<U>>(shape, stream, index_, source,
                                       static_cast<U*>(to) + to_start_);
    }
  });
}

}  // namespace mezzo::kernels::cuda
