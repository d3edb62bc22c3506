// Which element of the operand stands at every index of a padded dim, for the modes of Pad that
// repeat elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mezzo::kernels {

enum class PadMode : std::uint8_t { kReflect, kEdge, kWrap };

// A dim of `size` elements with `begin` and `end` added, or cut off where negative; cutting comes
// first. REQUIRES: what is left is not empty unless nothing is added; the result has no more than
// 2^28 elements.
inline std::vector<std::int64_t> pad_map(std::int64_t size, std::int64_t begin, std::int64_t end,
                                         PadMode mode) {
  const std::int64_t first = std::max<std::int64_t>(-begin, 0);
  const std::int64_t kept = size - first - std::max<std::int64_t>(-end, 0);
  std::vector<std::int64_t> map;
  map.reserve(static_cast<std::size_t>(std::max<std::int64_t>(size + begin + end, 0)));
  const auto modulo = [](std::int64_t i, std::int64_t n) { return (i % n + n) % n; };
  for (std::int64_t i = -std::max<std::int64_t>(begin, 0);
       i < kept + std::max<std::int64_t>(end, 0); ++i) {
    std::int64_t at = 0;
    switch (mode) {
      case PadMode::kEdge: at = std::clamp<std::int64_t>(i, 0, kept - 1); break;
      case PadMode::kWrap: at = modulo(i, kept); break;
      case PadMode::kReflect:
        if (kept > 1) at = modulo(i, 2 * (kept - 1));
        at = std::min(at, 2 * (kept - 1) - at);
        break;
    }
    map.push_back(first + at);
  }
  return map;
}

}  // namespace mezzo::kernels
