// Copies between strided views of one shape: what most operators that only move data come to.
#pragma once

#include <vector>

#include "compiler/support/status.h"
#include "kernels/cuda/index.h"

namespace mezzo::kernels::cuda {

// Where the dims that lie innermost in source and target differ: tiles go through shared memory,
// so that both sides are accessed in runs.
struct TilePlan {
  StridedIndex<2> batches;          // all other dims
  Int rows = 0, columns = 0;        // rows lie together in the target, columns in the source
  Int from_row = 0, to_column = 0;  // strides of the other dim in each
  std::int32_t wide_from = 0, wide_to = 0;  // whole 4-byte words may be accessed
};

// Elements of 1, 2, 4, 8 or 16 bytes at from + sum index[d] from_strides[d] go to the same with
// `to`. Strides may be negative, from_strides also 0. REQUIRES: buffers at multiples of 16 bytes.
class StridedCopy {
 public:
  StridedCopy() = default;  // copies nothing
  // `order`: the dims in the order of the target's memory, outermost first. Offsets count elements.
  static StridedCopy make(Int element_bytes, const Dims& sizes, const Dims& from_strides,
                          const Dims& to_strides, const std::vector<std::size_t>& order,
                          Int from_start, Int to_start);

  Status run(const void* from, void* to, void* stream) const;

 private:
  enum class Way : std::uint8_t { kNothing, kMemcpy, kStrided, kRepeat, kTiles };
  struct Axis {
    Int size, from, to;
  };
  void choose(std::vector<Axis> axes);
  bool choose_tiles(const std::vector<Axis>& axes);

  Way way_ = Way::kNothing;
  Int unit_bytes_ = 1;
  Int from_start_ = 0, to_start_ = 0;  // in units
  StridedIndex<2> index_;              // kMemcpy: its elems; kRepeat: of the target in 16 bytes
  TilePlan tiles_;
};

}  // namespace mezzo::kernels::cuda
