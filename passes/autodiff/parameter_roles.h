// Which operands are parameters by the operator that reads them.
#pragma once

#include <set>
#include <string>

#include "compiler/ir/graph.h"

namespace mezzo::passes {

// Names of floating-point initializers that are scale or shift of a normalisation, or bias of an
// operator that has one (convolutions, Gemm, recurrent and attention operators), by the operand
// that reads them, directly or through casts and changes of shape; and all of at most one
// dimension, as those are where a normalisation or a bias is spelled out (Mul, Add). Recipes leave
// them without weight decay.
std::set<std::string> norms_and_biases(const Graph& graph);

// Does an operator read the value, in the same ways, where it takes a parameter: such a scale,
// shift or bias, or the weight of a convolution, product or recurrent layer, or a table to look up
// computed indices in? Such a value is no mask, whatever it holds at the start.
bool is_read_as_parameter(const Value& value);

}  // namespace mezzo::passes
