// Arithmetic on what is known of values: interval arithmetic for the bounds, and the same in orders
// of magnitude for `scale`. Private to the analysis.
#pragma once

#include <optional>

#include "passes/precision/reach.h"

namespace mezzo::passes {

Reach bounded(double lowest, double highest);  // by a function's nature: a truth value, a Sigmoid

// Of a function of both: what it is made of; bounds and scale are not set.
Reach joined_kind(const Reach& a, const Reach& b);
Reach either(const Reach& a, const Reach& b);  // Where, Concat, Max: one of both
Reach sum(const Reach& a, const Reach& b);
Reach negated(Reach reach);
Reach product(const Reach& a, const Reach& b);
Reach squared(Reach a);
Reach inverted(const Reach& a);     // 1 / a
Reach root(Reach a, double power);  // a to a power between 0 and 1
Reach exponential(const Reach& a);
Reach with_zero(Reach reach);  // zero being one of its numbers
// Within constant limits, which need not be reached.
Reach limited(Reach reach, std::optional<double> lowest, std::optional<double> highest);

double size(const Reach& reach);   // what is computed with counts in full, masks included
double times(double a, double b);  // 0 x infinity is 0

}  // namespace mezzo::passes
