// Casts between the element types of data files and those of graph inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "compiler/support/dtype.h"

namespace mezzo::runtime {

// Casts n elements; `from` may lie at any address. To a floating type: rounded to nearest even.
// Else the value must fit, which check_elements() tells.
using CastFunction = void (*)(const std::byte* from, std::byte* to, std::int64_t n);

// Null where data of type `from` is not taken for an input of type `to`: floating data for an
// integer or bool input, and types other than bool, (u)int8 to 64 and floating ones.
CastFunction element_cast(DType from, DType to);

// Why an element cannot be cast.
enum class ElementFault {
  kNotANumber,
  kInfinite,
  kOutOfRange,  // too large for the target, or an integer it would round
};

struct FaultyElement {
  std::int64_t position;
  ElementFault fault;
};

// The first of n elements that is NaN, infinite or does not fit `to`. An integer fits a floating
// type if it is at most 2^digits (2^24 for float32), beyond which integers are no longer exact.
// REQUIRES: element_cast(from, to) is not null.
std::optional<FaultyElement> check_elements(DType from, DType to, const std::byte* data,
                                            std::int64_t n);

}  // namespace mezzo::runtime
