// Which nodes of a joint forward and backward graph belong to the forward pass.
#pragma once

#include <unordered_set>

#include "compiler/ir/graph.h"
#include "compiler/ir/training_roles.h"

namespace mezzo {

// 1. Nodes that the loss, the running statistics or any other output but a gradient needs.
// 2. Casts to a smaller type of what 1 computes, where nothing but such casts reads it later on: so
//    the larger one's bytes are free before the backward pass begins.
// All other nodes compute gradients.
std::unordered_set<const Node*> forward_nodes(const Graph& graph, const TrainingRoles& roles);

}  // namespace mezzo
