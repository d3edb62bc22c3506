// One element of a floating operand that is read here and there: coordinates, offsets, scalars.
#pragma once

#include <cstdint>

#include "compiler/support/dtype.h"
#include "compiler/support/half.h"

namespace mezzo::kernels::cpu {

inline double number_at(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::kFloat64: return static_cast<const double*>(data)[i];
    case DType::kFloat16:
      return static_cast<double>(f16_to_float(static_cast<const std::uint16_t*>(data)[i]));
    case DType::kBFloat16:
      return static_cast<double>(bf16_to_float(static_cast<const std::uint16_t*>(data)[i]));
    default: return static_cast<double>(static_cast<const float*>(data)[i]);
  }
}

}  // namespace mezzo::kernels::cpu
