// Which contractions are the output layer of a model.
#pragma once

#include <set>
#include <string>
#include <unordered_set>

#include "compiler/ir/graph.h"

namespace mezzo::passes {

// Nodes of category allow in the main graph from which an output is reached, but no further such
// node: the head of a classifier, not the projections whose keys and values a model also returns.
// Outputs named in `not_counted` (gradients) do not count.
std::unordered_set<const Node*> output_layers(const Graph& graph,
                                              const std::set<std::string>& not_counted = {});

}  // namespace mezzo::passes
