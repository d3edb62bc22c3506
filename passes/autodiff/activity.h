// Which values lie between a set of sources and the loss.
#pragma once

#include <unordered_set>

#include "compiler/ir/graph.h"

namespace mezzo::passes {

using ValueSet = std::unordered_set<const Value*>;

// Values the given one is computed from, itself included; gradients only flow through
// floating-point values and not into operands that take none (op catalogue). What a branch or loop
// body reads of the graph around it counts.
ValueSet influences(const Value& loss);

// Floating-point values computed from any of `sources`, these included.
ValueSet depends_on(const Graph& graph, const ValueSet& sources);

// The first value of the set that the graphs in `node` read; null if they read none.
const Value* first_capture(const Node& node, const ValueSet& of);

}  // namespace mezzo::passes
