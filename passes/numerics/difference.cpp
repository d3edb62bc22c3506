#include "passes/numerics/difference.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "passes/numerics/elements.h"

namespace mezzo::numerics {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kLeastScale = 1e-6;  // as the judges of converted models have it

// The distance of two elements; infinite where one is not finite and they differ.
double distance(double a, double b, double lowest_b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : kInfinite;
  if (b == lowest_b && a <= b) return 0;
  if (std::isinf(a) || std::isinf(b)) return a == b ? 0 : kInfinite;
  return std::fabs(a - b);
}

}  // namespace

Difference difference(const HostTensor& a, const HostTensor& b) {
  Difference found;
  found.comparable = a.dims == b.dims && is_numeric(a.dtype) && is_numeric(b.dtype);
  if (!found.comparable) {
    found.error = kInfinite;
    return found;
  }
  found.elems = static_cast<std::uint64_t>(a.elems());
  const double lowest_b =
      is_low(b.dtype) ? -float_facts(b.dtype).max : -std::numeric_limits<double>::max();
  double farthest = 0;
  std::vector<double> piece;
  for_each_piece(a, [&](std::int64_t first, std::span<const double> of_a) {
    piece.resize(of_a.size());
    read_elements(b, first, static_cast<std::int64_t>(of_a.size()), piece.data());
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      const double x = of_a[i], y = piece[i];
      if (!std::isfinite(x)) ++found.nonfinite_a;
      if (!std::isfinite(y)) ++found.nonfinite_b;
      const bool masked = y == lowest_b && x <= y;
      if (std::isfinite(x) && !masked) found.largest_a = std::max(found.largest_a, std::fabs(x));
      const double apart = distance(x, y, lowest_b);
      if (apart <= farthest) continue;
      farthest = apart;
      found.index = first + static_cast<std::int64_t>(i);
      found.a_there = x;
      found.b_there = y;
    }
  });
  found.error = farthest / std::max(found.largest_a, kLeastScale);
  return found;
}

Difference difference(const RuntimeValue& a, const RuntimeValue& b) {
  if (a.is_tensor() && b.is_tensor()) return difference(a.tensor, b.tensor);
  Difference worst;
  worst.comparable = a.kind == b.kind && a.elements.size() == b.elements.size();
  if (!worst.comparable) worst.error = kInfinite;
  for (std::size_t i = 0; worst.comparable && i < a.elements.size(); ++i) {
    const Difference one = difference(a.elements[i], b.elements[i]);
    if (!one.comparable || one.error > worst.error) worst = one;
  }
  return worst;
}

std::string error_text(double error) {
  return std::isinf(error) || std::isnan(error) ? "infinite" : fmt::format("{:.2g}", error);
}

}  // namespace mezzo::numerics
