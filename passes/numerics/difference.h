// How far two tensors are apart.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/interpreter/value.h"

namespace mezzo::numerics {

struct Difference {
  // Largest |a - b| as a share of the largest finite |a| (at least 1e-6): what is small beside the
  // tensor's largest element counts little. Infinite where b is not finite and a is, or the other
  // way round, or they are infinite with different signs.
  double error = 0;
  double largest_a = 0;             // finite magnitude
  double a_there = 0, b_there = 0;  // the elements at `index`, the first with the largest error
  std::int64_t index = -1;          // -1: nothing to compare, or all equal
  std::uint64_t elems = 0;
  std::uint64_t nonfinite_a = 0, nonfinite_b = 0;
  bool comparable = true;  // shapes agree and both are numbers

  bool within(double tolerance) const { return comparable && error <= tolerance; }
};

// Elements of any numeric types are compared as doubles; two NaN are equal. Where `b` holds the
// lowest finite value of its type, and `a` something below it, `b` is a mask that was saturated and
// counts as equal, and such elements of `a` not towards its largest.
Difference difference(const HostTensor& a, const HostTensor& b);

// Tensors, or sequences element by element: the worst.
Difference difference(const RuntimeValue& a, const RuntimeValue& b);

// "infinite", "0.012".
std::string error_text(double error);

}  // namespace mezzo::numerics
