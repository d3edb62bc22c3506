#include "passes/precision/reach_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mezzo::passes {
namespace {

Growth growth_of_product(Growth a, Growth b) {
  const bool inverse = a == Growth::kInverse || b == Growth::kInverse;
  if (inverse) return a == b ? Growth::kInverse : Growth::kOrdinary;
  return std::max(a, b);
}

}  // namespace

Reach bounded(double lowest, double highest) {
  Reach reach;
  reach.lowest = lowest;
  reach.highest = highest;
  reach.scale = reach.bound();
  reach.pure = true;
  return reach;
}

// What a function of both is, apart from its size.
Reach joined_kind(const Reach& a, const Reach& b) {
  Reach out;
  out.pure = a.pure && b.pure;
  out.counts = (a.counts || b.counts) && (a.counts || a.pure) && (b.counts || b.pure);
  out.growth = std::max(a.growth, b.growth);
  const bool second = b.cause != nullptr && std::max(b.scale, b.never) > std::max(a.scale, a.never);
  out.cause = a.cause == nullptr || second ? b.cause : a.cause;
  return out;
}

// One of both: Where, Concat, Max.
Reach either(const Reach& a, const Reach& b) {
  Reach out = joined_kind(a, b);
  out.lowest = std::min(a.lowest, b.lowest);
  out.highest = std::max(a.highest, b.highest);
  out.scale = std::max(a.scale, b.scale);
  out.never = std::max(a.never, b.never);
  return out;
}

// What is computed with counts in full, masks included.
double size(const Reach& reach) { return std::max(reach.scale, reach.never); }

Reach sum(const Reach& a, const Reach& b) {
  Reach out = joined_kind(a, b);
  out.lowest = a.lowest + b.lowest;
  out.highest = a.highest + b.highest;
  out.scale = std::max(size(a), size(b));
  return out;
}

Reach negated(Reach reach) {
  std::swap(reach.lowest, reach.highest);
  reach.lowest = -reach.lowest;
  reach.highest = -reach.highest;
  return reach;
}

double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

Reach product(const Reach& a, const Reach& b) {
  Reach out = joined_kind(a, b);
  const double corners[] = {times(a.lowest, b.lowest), times(a.lowest, b.highest),
                            times(a.highest, b.lowest), times(a.highest, b.highest)};
  out.lowest = *std::min_element(corners, corners + 4);
  out.highest = *std::max_element(corners, corners + 4);
  out.scale = times(size(a), size(b));
  out.growth = growth_of_product(a.growth, b.growth);
  return out;
}

Reach squared(Reach a) {
  const double bound = a.bound();
  const bool apart = a.lowest > 0 || a.highest < 0;
  const double least = std::min(std::fabs(a.lowest), std::fabs(a.highest));
  a.lowest = apart ? times(least, least) : 0;
  a.highest = times(bound, bound);
  a.scale = times(size(a), size(a));
  a.never = 0;
  if (a.growth == Growth::kOrdinary) a.growth = Growth::kSquare;
  return a;
}

Reach inverted(const Reach& a) {
  Reach out;
  out.pure = a.pure;
  out.cause = a.cause;
  if (a.growth > Growth::kInverse) out.growth = Growth::kInverse;
  if (a.growth == Growth::kInverse) out.growth = Growth::kSquare;
  if (a.lowest > 0 || a.highest < 0) {
    out.lowest = 1 / a.highest;
    out.highest = 1 / a.lowest;
  } else {
    out.lowest = a.lowest >= 0 ? 0 : -Reach::kUnknown;
    out.highest = a.highest <= 0 ? 0 : Reach::kUnknown;
  }
  out.scale = size(a) > 0 ? 1 / size(a) : 1;
  return out;
}

// Functions of a value with a constant exponent: squares, roots and their inverses.
Reach root(Reach a, double power) {
  const bool halves = power <= 0.5;
  if (halves && (a.growth == Growth::kSquare || a.growth == Growth::kInverse))
    a.growth = Growth::kOrdinary;
  a.lowest = std::pow(std::max(0.0, a.lowest), power);
  a.highest = std::pow(std::max(0.0, a.highest), power);
  a.scale = std::pow(size(a), power);
  a.never = 0;
  a.counts = false;
  return a;
}

Reach exponential(const Reach& a) {
  Reach out;
  out.lowest = std::exp(a.lowest);
  out.highest = std::exp(a.highest);
  out.growth = Growth::kExponential;
  out.pure = a.pure;
  out.cause = a.cause;
  if (std::isfinite(out.highest)) out.scale = out.highest;
  return out;
}

Reach with_zero(Reach reach) {
  reach.lowest = std::min(reach.lowest, 0.0);
  reach.highest = std::max(reach.highest, 0.0);
  return reach;
}

// The result lies within constant limits, but need not reach them.
Reach limited(Reach reach, std::optional<double> lowest, std::optional<double> highest) {
  if (lowest) {
    reach.lowest = std::max(reach.lowest, *lowest);
    reach.highest = std::max(reach.highest, *lowest);
  }
  if (highest) {
    reach.lowest = std::min(reach.lowest, *highest);
    reach.highest = std::min(reach.highest, *highest);
  }
  return reach;
}

}  // namespace mezzo::passes
