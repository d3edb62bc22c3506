#include "compiler/report/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace mezzo {
namespace {

// Three significant digits for 1 <= value < 1000.
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

}  // namespace

std::string format_flops(double flops) {
  static constexpr std::array kPrefixes = {"", "k", "M", "G", "T", "P", "E"};
  if (!std::isfinite(flops) || flops < 0) return "?";
  if (flops < 1000) return fmt::format("{:.0f} FLOP", flops);
  std::size_t power = 0;
  while (flops >= 999.5 && power + 1 < kPrefixes.size()) {
    flops /= 1000;
    ++power;
  }
  return three_digits(flops) + " " + kPrefixes[power] + "FLOP";
}

std::string format_us(double us) {
  if (!std::isfinite(us) || us < 0) return "?";
  if (us < 999.5) return three_digits(us) + " us";
  if (us < 999.5e3) return three_digits(us / 1e3) + " ms";
  return three_digits(us / 1e6) + " s";
}

std::string format_share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}%", 100 * part / whole) : "-";
}

std::string_view short_dtype(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "fp32";
    case DType::kFloat16: return "fp16";
    case DType::kBFloat16: return "bf16";
    case DType::kFloat64: return "fp64";
    case DType::kNone: return "-";
    default: return dtype_name(dtype);
  }
}

}  // namespace mezzo
