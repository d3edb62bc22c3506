#include "passes/precision/output_layers.h"

#include <algorithm>

#include "compiler/ops/op_def.h"

namespace mezzo::passes {
namespace {

bool is_contraction(const Node& node) {
  const OpDef* def = find_op(node);
  return def != nullptr && def->precision == PrecisionCategory::kAllow;
}

// The node of `graph` that holds `node`, perhaps several graphs deep.
const Node* holder_in(const Graph& graph, const Node* node) {
  while (node != nullptr && node->graph() != &graph)
    node = node->graph() == nullptr ? nullptr : node->graph()->parent();
  return node;
}

}  // namespace

std::unordered_set<const Node*> output_layers(const Graph& graph,
                                              const std::set<std::string>& not_counted) {
  std::unordered_set<const Node*> found, wanted, before_contraction;
  const auto& nodes = graph.nodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Node& node = **it;
    bool reaches_output = false, reaches_contraction = false;
    for (const Value* result : node.results()) {
      if (result == nullptr) continue;
      if (result->is_graph_output() && not_counted.count(result->name()) == 0)
        reaches_output = true;
      for (const Use& use : result->uses()) {
        const Node* reader = holder_in(graph, use.node);
        if (reader == nullptr || wanted.count(reader) == 0) continue;
        reaches_output = true;
        if (is_contraction(*reader) || before_contraction.count(reader) > 0)
          reaches_contraction = true;
      }
    }
    if (!reaches_output) continue;
    wanted.insert(&node);
    if (reaches_contraction) before_contraction.insert(&node);
    if (is_contraction(node) && !reaches_contraction) found.insert(&node);
  }
  return found;
}

}  // namespace mezzo::passes
