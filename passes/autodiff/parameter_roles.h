// Which parameters normalise or shift: those that recipes leave without weight decay.
#pragma once

#include <set>
#include <string>

#include "compiler/ir/graph.h"

namespace mezzo::passes {

// Names of floating-point initializers that are scale or shift of a normalisation, or bias of an
// operator that has one (convolutions, Gemm, recurrent and attention operators), by the operand
// that reads them, directly or through casts and changes of shape; and all of at most one
// dimension, as those are where a normalisation or a bias is spelled out (Mul, Add).
std::set<std::string> norms_and_biases(const Graph& graph);

}  // namespace mezzo::passes
