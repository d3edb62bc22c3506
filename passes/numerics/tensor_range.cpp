#include "passes/numerics/tensor_range.h"

#include <fmt/format.h>

#include <cmath>

#include "compiler/ir/cast_elems.h"
#include "compiler/ir/float_loops.h"
#include "passes/numerics/elements.h"

namespace mezzo::numerics {
namespace {

using passes::TensorRange;

void take(TensorRange& range, double value) {
  if (!range.any_finite) {
    range.any_finite = true;
    range.lowest = range.highest = value;
  }
  range.lowest = std::min(range.lowest, value);
  range.highest = std::max(range.highest, value);
  const double magnitude = std::fabs(value);
  if (magnitude != 0 && (range.smallest_nonzero == 0 || magnitude < range.smallest_nonzero))
    range.smallest_nonzero = magnitude;
}

// Extremes of FP32 at the speed of memory. True if all elements are finite.
bool take_floats(const HostTensor& tensor, TensorRange& range) {
  FloatExtremesFinder finder;
  finder.add(tensor.data.get(), static_cast<std::size_t>(tensor.elems()));
  const FloatExtremes found = finder.result();
  range.any_finite = found.any_finite;
  if (found.any_finite) {
    range.lowest = static_cast<double>(found.lowest);
    range.highest = static_cast<double>(found.highest);
    range.smallest_nonzero = static_cast<double>(found.smallest_nonzero);
  }
  return !found.infinite && !found.nan;
}

void count_others(const HostTensor& tensor, bool extremes_too, TensorRange& range) {
  for_each_piece(tensor, [&](std::int64_t, std::span<const double> piece) {
    for (const double value : piece) {
      if (std::isnan(value)) ++range.nans;
      if (std::isinf(value)) ++range.infinities;
      if (extremes_too && std::isfinite(value)) take(range, value);
    }
  });
}

double lowest_above(const HostTensor& tensor, double mask, double highest) {
  double lowest = highest;
  for_each_piece(tensor, [&](std::int64_t, std::span<const double> piece) {
    for (const double value : piece) {
      if (value > mask && value < lowest) lowest = value;
    }
  });
  return lowest;
}

// Stops at the first element that is no whole number, which mostly is among the first.
void look_for_integers(const HostTensor& tensor, DType low, TensorRange& range) {
  const double exact_up_to = 2.0 / float_facts(low).epsilon;
  double first = 0;
  bool several = false;
  constexpr std::int64_t kFirst = 64;
  const auto look = [&](std::int64_t at, std::span<const double> piece) {
    for (std::size_t i = 0; i < piece.size() && range.whole; ++i) {
      const double value = piece[i];
      range.whole = std::isfinite(value) && value == std::floor(value);
      if (at + static_cast<std::int64_t>(i) == 0) first = value;
      several = several || value != first;
      if (range.whole && std::fabs(value) > exact_up_to && round_to(low, value) != value)
        range.inexact = true;
    }
  };
  std::vector<double> start(static_cast<std::size_t>(std::min(kFirst, tensor.elems())));
  read_elements(tensor, 0, static_cast<std::int64_t>(start.size()), start.data());
  look(0, start);
  if (range.whole && tensor.elems() > kFirst) for_each_piece(tensor, look);
  range.inexact = range.inexact && range.whole && several;
}

}  // namespace

TensorRange range_of(const HostTensor& tensor, const RangeOptions& options) {
  TensorRange range;
  if (!is_numeric(tensor.dtype) || tensor.elems() == 0) return range;
  range.elems = static_cast<std::uint64_t>(tensor.elems());
  const bool floats = tensor.dtype == DType::kFloat32;
  const bool finite = floats && take_floats(tensor, range);
  if (!finite) count_others(tensor, !floats, range);
  range.lowest_unmasked = range.any_finite && range.lowest <= options.mask
                              ? lowest_above(tensor, options.mask, range.highest)
                              : range.lowest;
  look_for_integers(tensor, options.low, range);
  return range;
}

std::string number_text(double value) {
  return std::isnan(value) ? "NaN" : fmt::format("{:.6g}", value);
}

std::string range_text(const TensorRange& range) {
  if (range.elems == 0) return "no elements";
  std::string text = "nothing finite";
  if (range.any_finite && range.lowest == range.highest) text = "all " + number_text(range.lowest);
  if (range.any_finite && range.lowest != range.highest)
    text = number_text(range.lowest) + " to " + number_text(range.highest);
  if (range.infinities > 0) text += ", " + std::to_string(range.infinities) + " inf";
  if (range.nans > 0) text += ", " + std::to_string(range.nans) + " NaN";
  return text;
}

}  // namespace mezzo::numerics
