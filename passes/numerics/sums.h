// How large the sums inside a node can become on the way to its result.
#pragma once

#include <optional>

#include "compiler/interpreter/interpreter.h"
#include "passes/numerics/node_runner.h"
#include "passes/precision/calibration.h"

namespace mezzo::numerics {

// How many elements or products one result of the node sums up, by the operands' sizes; nullopt for
// nodes that do not sum.
std::optional<double> summed_elems(const NodeRun& run);

// The largest sum of magnitudes over all results, which bounds every partial sum in whatever order
// it is taken: sum |a| |b| of a contraction (with |bias|), sum |x| of a reduction or mean. Exact,
// by running the node once more on the magnitudes of its operands; but where the number of elements
// times the largest products stays below `enough`, that product. nullopt: the node does not sum, or
// does not run on magnitudes.
std::optional<passes::SumRange> largest_sum(const NodeRun& run, double enough,
                                            const NodeRunnerOptions& options);

}  // namespace mezzo::numerics
