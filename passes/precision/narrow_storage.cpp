#include "passes/precision/narrow_storage.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/training_phases.h"
#include "passes/precision/reads_any_type.h"
#include "passes/precision/save_low.h"
#include "passes/precision/storage_kinds.h"

namespace mezzo::passes {
namespace {

class Narrower {
 public:
  Narrower(Graph& graph, PassContext& ctx)
      : graph_(graph), ctx_(ctx), fixed_(kept_in_fp32(ctx.records)) {
    if (ctx.policy.low == DType::kFloat16) sparing_ = forward_nodes(graph, *ctx.training);
  }

  bool run() {
    for (Node* node : graph_.node_list()) {
      for (Value* result : node->results()) {
        if (result != nullptr && may_be_stored_low(*node, *result)) narrow_.insert(result);
      }
    }
    // Removing one may disqualify others; what is left at the end fits together.
    for (bool settled = false; !settled;) {
      settled = true;
      for (Node* node : graph_.node_list()) {
        for (Value* result : node->results()) {
          if (narrow_.count(result) == 0 || fits(*node, *result)) continue;
          narrow_.erase(result);
          settled = false;
        }
      }
    }
    std::vector<Value*> chosen;  // before casts are erased
    for (Node* node : graph_.node_list()) {
      for (Value* result : node->results()) {
        if (narrow_.count(result) > 0) chosen.push_back(result);
      }
    }
    for (Value* value : chosen) store_low(*value);
    return !chosen.empty();
  }

 private:
  bool is_low_or_narrow(const Value& value) const {
    return is_low(value.dtype()) || narrow_.count(&value) > 0;
  }

  // Looked at once, before others are.
  bool may_be_stored_low(const Node& node, const Value& result) const {
    if (!is_large_float(result) || result.is_graph_output() || !result.inner_outputs().empty() ||
        !result.has_uses() || fixed_.count(display_name(node)) > 0) {
      return false;
    }
    const bool first = node.results()[0] == &result;
    if (is_contraction(node)) return first && reads_low(node);
    if (is_normalisation(node)) return first;
    if (node.is("SoftmaxCrossEntropyLossGrad", kMezzoDomain)) return true;
    return is_move(node) || (first && (is_elementwise(node) || node.is("AddN", kMezzoDomain)));
  }

  static bool reads_low(const Node& node) {
    return std::ranges::all_of(node.operands(), [](const Value* operand) {
      return operand == nullptr || operand->dtype() != DType::kFloat32;
    });
  }

  // Is `node` computed as exactly as in FP32, but for what contractions read and give?
  bool spares(const Node& node) const { return sparing_.count(&node) > 0; }

  bool fits(const Node& node, const Value& result) const {
    if (is_move(node)) {
      for (const Value* operand : node.operands()) {
        const bool wide = operand != nullptr && operand->dtype() == DType::kFloat32;
        if (wide && narrow_.count(operand) == 0) return false;
      }
      for (const Value* other : node.results()) {
        if (other != nullptr && other->dtype() == DType::kFloat32 && narrow_.count(other) == 0)
          return false;
      }
    } else if (!spares(node) && (is_elementwise(node) || is_gradient_sum(node))) {
      for (const Value* operand : node.operands()) {
        if (operand != nullptr && is_large_float(*operand) && narrow_.count(operand) == 0)
          return false;
      }
    }
    const std::vector<Use>& uses = result.uses();
    return std::all_of(uses.begin(), uses.end(),
                       [&](const Use& use) { return may_read_low(use, result); });
  }

  bool may_read_low(const Use& use, const Value& value) const {
    const Node& node = *use.node;
    if (node.graph() != &graph_ || fixed_.count(display_name(node)) > 0) return false;
    if (node.is("Cast")) return is_low(node.result()->dtype());
    const Node& producer = *value.producer();
    if (is_move(node) || (spares(node) && picks(node))) {
      return std::ranges::all_of(node.results(), [&](const Value* result) {
        return result == nullptr || !is_floating(result->dtype()) || is_low_or_narrow(*result);
      });
    }
    if (spares(node)) return is_contraction(producer) && is_normalisation(node);
    if (is_normalisation(node) || is_elementwise(node) || is_gradient_sum(node)) return true;
    if (node.is("ReduceMean")) return true;  // pools
    return (is_contraction(producer) || producer.is("Resize")) && reads_any_type(node);
  }

  void store_low(Value& value) {
    value.type.tensor.dtype = ctx_.policy.low;
    ctx_.stats.add("activations-narrowed", 1);
    const std::vector<Use> uses = value.uses();
    for (const Use& use : uses) {
      if (!use.node->is("Cast") || use.node->result()->dtype() != ctx_.policy.low) continue;
      graph_.replace_uses(use.node->result(), &value);
      graph_.erase(use.node);
      ctx_.stats.add("casts-absorbed", 1);
    }
  }

  Graph& graph_;
  PassContext& ctx_;
  std::unordered_set<std::string> fixed_;    // nodes, by name
  std::unordered_set<const Node*> sparing_;  // the forward pass in FP16; empty in BF16
  std::unordered_set<const Value*> narrow_;
};

}  // namespace

StatusOr<bool> narrow_storage(Model& model, PassContext& ctx) {
  const bool wanted = ctx.for_runtime && ctx.device != DeviceKind::kCpu && ctx.training &&
                      !ctx.policy.force_fp32 && is_low(ctx.policy.low);
  if (!wanted) return false;
  const bool saves = ctx.policy.low == DType::kFloat16 && save_low(*model.graph, ctx);
  return Narrower(*model.graph, ctx).run() || saves;
}

}  // namespace mezzo::passes
