// Loops over weights: casts and extremes of FP32 elements, vectorised for the processor at hand.
// The results are the same bits on every processor. Buffers need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compiler/ir/cast_elems.h"

namespace mezzo {

// `target` is float16 or bfloat16 and agrees with compiler/support/half.h bit by bit.
void narrow_to_f16(const std::byte* source, std::byte* target, std::size_t elems,
                   Overflow overflow);
void narrow_to_bf16(const std::byte* source, std::byte* target, std::size_t elems,
                    Overflow overflow);

// Extremes of the FP32 elements seen so far.
struct FloatExtremes {
  bool any_finite = false;        // without one the numbers below say nothing
  float lowest = 0, highest = 0;  // of finite elements
  float smallest_nonzero = 0;     // of their magnitudes; 0: all are zero
  bool infinite = false, nan = false;
};

// Gathers extremes over pieces of a tensor.
class FloatExtremesFinder {
 public:
  void add(const std::byte* source, std::size_t elems);
  FloatExtremes result() const;

  // Bit patterns compare faster than numbers, and order alike once the lower bits of negative ones
  // are flipped.
  struct Bits {
    std::int32_t lowest = INT32_MAX, highest = INT32_MIN;  // of finite elements
    std::uint32_t smallest_less_one = UINT32_MAX;          // so that zero does not count
    bool infinite = false, nan = false;
  };

 private:
  Bits bits_;
};

}  // namespace mezzo
