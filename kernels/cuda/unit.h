// Memory as units of 1, 2, 4, 8 or 16 bytes, for code that moves elements whatever they mean.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cuda/device_code.h"

namespace mezzo::kernels::cuda {

inline constexpr std::int64_t kWidestUnit = 16;

template <typename U>
struct UnitTag {
  using Type = U;
};

// visit(UnitTag<U>()), U as large as `bytes` says. REQUIRES: a power of 2 up to kWidestUnit.
template <typename Visit>
auto with_unit(std::int64_t bytes, Visit&& visit) {
  switch (bytes) {
    case 1: return visit(UnitTag<std::uint8_t>());
    case 2: return visit(UnitTag<std::uint16_t>());
    case 4: return visit(UnitTag<std::uint32_t>());
    case 8: return visit(UnitTag<std::uint64_t>());
    default: return visit(UnitTag<uint4>());
  }
}

// The largest power of 2 that divides every number given, at most `most`.
template <typename... Numbers>
constexpr std::int64_t common_unit(std::int64_t most, Numbers... numbers) {
  std::int64_t unit = most;
  while (unit > 1 && ((numbers % unit != 0) || ...)) unit /= 2;
  return unit;
}

}  // namespace mezzo::kernels::cuda
