// The one bound that kernel tests use, derived from the digits of the types.
#pragma once

#include <cstdint>

#include "compiler/support/dtype.h"

namespace mezzo::kernels {

// Relative error allowed to a result of `dtype` that was computed by `depth` rounded operations in
// `accum_dtype` one after another (the length of the longest chain of sums, or the number of
// operations in a formula) and then rounded once: half a unit in the last place of `dtype`, and
// half a unit of `accum_dtype` per operation. Relative to the element, or, where a sum cancels, to
// the largest number on the way.
inline double tolerance(DType dtype, DType accum_dtype, std::int64_t depth) {
  const double unit = float_facts(accum_dtype).epsilon / 2.0;
  return float_facts(dtype).epsilon / 2.0 * (1.0 + unit) + static_cast<double>(depth) * unit;
}

}  // namespace mezzo::kernels
