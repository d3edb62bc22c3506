// Casts between floating types on plain buffers.
#pragma once

#include <cstddef>

#include "compiler/support/dtype.h"

namespace mezzo {

enum class Overflow : bool { kInfinity, kSaturate };

// target[i] = source[i] cast to `to`, for `elems` elements. Rounds once, to nearest, ties to even;
// subnormals are kept, NaN stays NaN. With kSaturate, values beyond the range of `to`, infinities
// included, become its largest finite value of their sign. The buffers need no alignment and must
// not overlap. REQUIRES: is_floating(from) and is_floating(to).
void cast_elems(DType from, DType to, Overflow overflow, const std::byte* source, std::byte* target,
                std::size_t elems);

// One value, rounded as above; for the other direction use cast_elems.
double round_to(DType dtype, double value);

}  // namespace mezzo
