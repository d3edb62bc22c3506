// Copies between strided views of one shape: what every operator that only moves data comes to.
#pragma once

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {

// Elements of 1, 2, 4 or 8 bytes at from + sum index[d] from_stride[d] go to the same with `to`.
// Offsets and strides count elements. Strides may be negative, from_strides also 0.
class StridedCopy {
 public:
  // `order`: the dims in the order of the result's memory, outermost first.
  static StridedCopy make(std::int64_t elem_bytes, const Dims& sizes, const Dims& from_strides,
                          const Dims& to_strides, const std::vector<std::size_t>& order,
                          Int from_start, Int to_start);

  void run(const Isa& isa, const void* from, void* to, int threads) const;

 private:
  struct Axis {
    Int size;
    Int from;
    Int to;
  };
  enum class Inner { kRun, kRepeat, kStrided, kTranspose };

  void run_inner(const Isa& isa, const char* from, char* to, Int first, Int second) const;

  Int elem_bytes_ = 0;
  Int from_start_ = 0;
  Int to_start_ = 0;
  Int elems_ = 0;
  std::vector<Axis> outer_;  // outermost first
  Axis last_{1, 1, 1};       // the result's innermost
  Axis turned_{1, 0, 0};     // kTranspose: the operand's innermost
  Inner inner_ = Inner::kRun;
};

// Element size if StridedCopy can move it, else Unimplemented.
StatusOr<Int> movable_bytes(DType dtype);

// Writes `n` bytes of zeros with threads.
void fill_zero(void* to, std::size_t bytes, int threads);

}  // namespace mezzo::kernels::cpu
