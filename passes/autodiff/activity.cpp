#include "passes/autodiff/activity.h"

#include <vector>

#include "compiler/ops/op_def.h"

namespace mezzo::passes {
namespace {

// Calls `visit(value)` for every value from outside that the graphs in `node` read or give back.
template <typename Visit>
void for_each_capture(const Node& node, const Visit& visit) {
  for (Graph* inner : node.subgraphs()) {
    for_each_graph(*inner, [&](Graph& graph) {
      const auto look = [&](const Value* value) {
        if (value != nullptr && value->graph() == node.graph()) visit(*value);
      };
      for (const auto& nested : graph.nodes()) {
        for (const Value* operand : nested->operands()) look(operand);
      }
      for (const Value* output : graph.outputs()) look(output);
    });
  }
}

bool carries_gradient(const Node& node, std::size_t operand) {
  const OpDef* def = find_op(node);
  return def == nullptr || operand >= 32 || ((def->no_gradient_operands >> operand) & 1U) == 0;
}

}  // namespace

const Value* first_capture(const Node& node, const ValueSet& of) {
  const Value* found = nullptr;
  for_each_capture(node, [&](const Value& value) {
    if (found == nullptr && of.count(&value) > 0) found = &value;
  });
  return found;
}

ValueSet influences(const Value& loss) {
  ValueSet seen = {&loss};
  std::vector<const Value*> stack = {&loss};
  while (!stack.empty()) {
    const Node* node = stack.back()->producer();
    stack.pop_back();
    if (node == nullptr) continue;
    for (std::size_t i = 0; i < node->operand_count(); ++i) {
      const Value* operand = node->operand(i);
      if (operand == nullptr || !is_floating(operand->dtype()) || !carries_gradient(*node, i))
        continue;
      if (seen.insert(operand).second) stack.push_back(operand);
    }
    for_each_capture(*node, [&](const Value& value) {
      if (is_floating(value.dtype()) && seen.insert(&value).second) stack.push_back(&value);
    });
  }
  return seen;
}

ValueSet depends_on(const Graph& graph, const ValueSet& sources) {
  ValueSet active = sources;
  for (const auto& node : graph.nodes()) {
    bool reached = false;
    for (std::size_t i = 0; i < node->operand_count() && !reached; ++i) {
      reached = node->operand(i) != nullptr && active.count(node->operand(i)) > 0 &&
                carries_gradient(*node, i);
    }
    for_each_capture(*node,
                     [&](const Value& value) { reached = reached || active.count(&value) > 0; });
    if (!reached) continue;
    for (const Value* result : node->results()) {
      if (result != nullptr && is_floating(result->dtype())) active.insert(result);
    }
  }
  return active;
}

}  // namespace mezzo::passes
