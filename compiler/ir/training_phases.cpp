#include "compiler/ir/training_phases.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace mezzo {
namespace {

using Nodes = std::unordered_set<const Node*>;

Nodes needed_by_all_but(const std::set<std::string>& gradients, const Graph& graph) {
  std::vector<const Value*> stack;
  for (const Value* output : graph.outputs()) {
    if (gradients.count(output->name()) == 0) stack.push_back(output);
  }
  Nodes needed;
  while (!stack.empty()) {
    const Node* node = stack.back()->producer();
    stack.pop_back();
    if (node == nullptr || !needed.insert(node).second) continue;
    for (const Value* operand : node->operands()) {
      if (operand != nullptr) stack.push_back(operand);
    }
  }
  return needed;
}

bool is_cast_to_smaller(const Node& node) {
  return node.is("Cast") && node.operand(0) != nullptr && node.result() != nullptr &&
         dtype_bits(node.result()->dtype()) < dtype_bits(node.operand(0)->dtype());
}

bool makes_room(const Node& node, const Nodes& forward) {
  if (!is_cast_to_smaller(node)) return false;
  const Value& wide = *node.operand(0);
  return wide.producer() != nullptr && forward.count(wide.producer()) > 0 &&
         std::ranges::all_of(wide.uses(), [&](const Use& use) {
           return forward.count(use.node) > 0 || is_cast_to_smaller(*use.node);
         });
}

}  // namespace

std::unordered_set<const Node*> forward_nodes(const Graph& graph, const TrainingRoles& roles) {
  std::set<std::string> gradients;
  for (const auto& [parameter, gradient] : roles.gradients) gradients.insert(gradient);
  Nodes forward = needed_by_all_but(gradients, graph);
  std::vector<const Node*> early;
  for (const auto& node : graph.nodes()) {
    if (forward.count(node.get()) == 0 && makes_room(*node, forward)) early.push_back(node.get());
  }
  forward.insert(early.begin(), early.end());
  return forward;
}

}  // namespace mezzo
