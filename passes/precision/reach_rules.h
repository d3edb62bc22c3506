// How the reach of a node's results follows from that of its operands. Private to the analysis and
// the range rules.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "passes/precision/reach.h"

namespace mezzo::passes {

// The reach of result number `index`; nullopt where no rule tells, and the value's type decides.
std::optional<Reach> reach_of_result(const Node& node, std::size_t index,
                                     const ReachAnalysis& analysis);

// How many elements one element of the result of a reduction, pooling or contraction sums up;
// nullopt where a dimension is not known, and for other operators.
std::optional<double> summed_elems(const Node& node);

// Sums whose length is not known count as this long: a long sentence, or a small picture.
inline constexpr double kAssumedSum = 2048;

// Does a contraction multiply activations with `operand`, a sum over a known number of elements, or
// such a sum moved? It is then as large as their elementwise product would be; weights make up for
// the length of a sum.
bool multiplies_sum(const Node& node, std::size_t operand);

// The operand of a contraction that is a constant of equal elements (ones, 1/N): the node sums up
// the other operand. Null if there is none.
const Value* uniform_factor(const Node& node, const ReachAnalysis& analysis);

}  // namespace mezzo::passes
