// 1. What the loss reads through derivatives, and what it reads at all (integers included).
// 2. A node that quantizes a value which the loss reads only the second way cuts off what the value
//    is computed from: the first parameter among that is named.
//
// Runs before constants are folded, as quantized weights are gone after that.

#include "passes/autodiff/check_quantized.h"

#include <string>
#include <vector>

#include "compiler/ops/op_def.h"
#include "compiler/support/text.h"
#include "passes/autodiff/activity.h"
#include "passes/autodiff/pattern_list.h"
#include "passes/autodiff/select_parameters.h"

namespace mezzo::passes {
namespace {

bool quantizes(const Node& node) {
  const std::string& op = node.op_type();
  return op == "QuantizeLinear" || op.starts_with("DynamicQuantize");
}

// Every value that `roots` are computed from, themselves included, whatever its type.
ValueSet read_by(const std::vector<const Value*>& roots) {
  ValueSet seen(roots.begin(), roots.end());
  std::vector<const Value*> stack = roots;
  while (!stack.empty()) {
    const Node* node = stack.back()->producer();
    stack.pop_back();
    if (node == nullptr) continue;
    for (const Value* operand : node->operands()) {
      if (operand != nullptr && seen.insert(operand).second) stack.push_back(operand);
    }
  }
  return seen;
}

// The loss; where it is still to be attached, all outputs.
std::vector<const Value*> roots_of(const Graph& graph, const std::string& loss_output) {
  const auto loss = find_loss(graph, loss_output);
  if (loss.ok()) return {*loss};
  return {graph.outputs().begin(), graph.outputs().end()};
}

// Statistics of a normalisation are no parameters.
bool is_parameter(const Value& value) {
  if (!value.constant() || !is_floating(value.dtype()) || value.constant()->elems() < 2)
    return false;
  for (const Use& use : value.uses()) {
    if (use.node->is("BatchNormalization") && use.operand >= 3) return false;
  }
  return true;
}

}  // namespace

StatusOr<bool> check_quantized(Model& model, PassContext& ctx) {
  const Graph& graph = *model.graph;
  std::vector<const Node*> cuts;
  for (const auto& node : graph.nodes()) {
    if (quantizes(*node)) cuts.push_back(node.get());
  }
  if (cuts.empty()) return false;
  MEZZO_ASSIGN_OR_RETURN(const auto frozen,
                         PatternList::compile(ctx.training_options.freeze, "--freeze"));
  const std::vector<const Value*> roots = roots_of(graph, ctx.training_options.loss_output);
  ValueSet differentiable;
  for (const Value* root : roots) differentiable.merge(influences(*root));
  const ValueSet read = read_by(roots);
  for (const Node* node : cuts) {
    const Value* operand = node->operand(0);
    if (operand == nullptr || read.count(operand) == 0) continue;
    const ValueSet before = influences(*operand);
    for (const Value* value : graph.initializers()) {
      const bool cut_off = before.count(value) > 0 && differentiable.count(value) == 0;
      if (!cut_off || !is_parameter(*value) || frozen.matches(value->name())) continue;
      return unimplemented(
          describe(*node) + ": the gradient of '" + operand->name() +
          "' is needed for parameter '" + value->name() +
          "', but quantization is a staircase, its derivative is zero. Hint: train "
          "before quantizing, or --freeze the parameters before it");
    }
  }
  return false;
}

}  // namespace mezzo::passes
