// What PyTorch's exporter notes about a graph: layers and parameters that its optimiser took away.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo::passes {

// InvalidArgument naming the layers, if BatchNormalizations were folded into convolutions: their
// scale and bias cannot be trained any more and their statistics no longer move.
Status check_nothing_folded(const Graph& graph);

// Parameters of the PyTorch module that the graph was made from, as the notes on its nodes name
// them ("p_net_1_weight"), that no initializer stands for: the exporter has computed with them.
// Sorted; empty for graphs without notes.
std::vector<std::string> lost_parameters(const Graph& graph);

}  // namespace mezzo::passes
