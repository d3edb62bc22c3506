// Graphs of any size, for showing how the time of a conversion grows with it.
#pragma once

#include <memory>
#include <span>

#include "compiler/ir/graph.h"

namespace mezzo::bench {

// A kind of graph. `make` gives one of `nodes` nodes, those of subgraphs included, or a block's
// length more; the sizes of its tensors are small, so that time goes to the graph alone.
struct GraphKind {
  const char* name;
  const char* summary;
  std::unique_ptr<Model> (*make)(int nodes);
};

std::span<const GraphKind> graph_kinds();

}  // namespace mezzo::bench
