// A floating number as an integer, whatever it is: C++ leaves numbers out of range undefined.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace mezzo::kernels {

// Without its fraction; beyond 64 bits (126 of a wider type) the nearest number they hold, 0 for
// NaN. Narrower types wrap, as their sums do.
template <typename Integer>
Integer truncated(double value) {
  if (std::isnan(value)) return 0;
  if constexpr (sizeof(Integer) > sizeof(std::int64_t))
    return static_cast<Integer>(std::clamp(value, -0x1p126, 0x1p126));
  if constexpr (std::is_unsigned_v<Integer>) {
    if (value >= 0)
      return static_cast<Integer>(
          static_cast<std::uint64_t>(std::min(value, 0x1.fffffffffffffp63)));
  }
  return static_cast<Integer>(
      static_cast<std::int64_t>(std::clamp(value, -0x1p63, 0x1.fffffffffffffp62)));
}

}  // namespace mezzo::kernels
