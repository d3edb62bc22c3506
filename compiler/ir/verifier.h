// Checks the invariants of graph.h. Run after every pass.
#pragma once

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo {

// Internal error naming the first broken invariant: definition before use, matching use lists,
// unique names, captures that an inner name hides, parents of subgraphs, types that contradict (a
// tensor whose constant has another dtype or shape). Linear in the size of the model.
Status verify(const Model& model);
// REQUIRES: a graph that captures nothing (a main graph or function body).
Status verify(const Graph& graph);

}  // namespace mezzo
