#include "passes/autodiff/activity.h"

#include <vector>

#include "compiler/ops/op_def.h"

namespace mezzo::passes {
namespace {

bool carries_gradient(const Node& node, std::size_t operand) {
  const OpDef* def = find_op(node);
  return def == nullptr || operand >= 32 || ((def->no_gradient_operands >> operand) & 1U) == 0;
}

}  // namespace

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
    if (!reached) continue;
    for (const Value* result : node->results()) {
      if (result != nullptr && is_floating(result->dtype())) active.insert(result);
    }
  }
  return active;
}

}  // namespace mezzo::passes
