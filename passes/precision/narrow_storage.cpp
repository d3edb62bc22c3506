#include "passes/precision/narrow_storage.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "passes/cleanup/match.h"
#include "passes/precision/classify.h"
#include "passes/precision/reads_any_type.h"

namespace mezzo::passes {
namespace {

// Below, what is saved is not worth a rounding.
constexpr std::int64_t kLeastElems = 4096;

bool is_large_float(const Value& value) {
  if (value.dtype() != DType::kFloat32) return false;
  const auto dims = static_dims(&value);
  if (!dims) return false;
  std::int64_t elems = 1;
  for (const std::int64_t dim : *dims) elems *= dim;
  return elems >= kLeastElems;
}

bool is_any_of(const Node& node, std::initializer_list<std::string_view> ops) {
  return (node.domain().empty() || node.domain() == kMezzoDomain) &&
         std::find(ops.begin(), ops.end(), node.op_type()) != ops.end();
}

bool is_contraction(const Node& node) {
  const OpDef* def = find_op(node);
  return def != nullptr && def->precision == PrecisionCategory::kAllow;
}

bool is_move(const Node& node) {
  const OpDef* def = find_op(node);
  return def != nullptr && !node.is("Cast") && def->precision == PrecisionCategory::kClear &&
         def->pin == PinKind::kNone;
}

bool is_normalisation(const Node& node) {
  return is_any_of(node, {"BatchNormalization", "BatchNormalizationTrain", "BatchNormalizationGrad",
                          "GroupNormalization", "InstanceNormalization", "LayerNormalization",
                          "LayerNormalizationGrad", "RMSNormalization", "RMSNormalizationGrad"});
}

// Sums of gradients: they take any type and add in FP32.
bool is_sum(const Node& node) { return is_any_of(node, {"AddN", "SumTo", "ConvGradBias"}); }

bool is_elementwise(const Node& node) {
  const OpDef* def = find_op(node);
  return def != nullptr && def->pin == PinKind::kNone && reads_any_type(node) &&
         def->precision == PrecisionCategory::kInfer;
}

class Narrower {
 public:
  Narrower(Graph& graph, PassContext& ctx) : graph_(graph), ctx_(ctx) {
    for (const NodeDecision& decision : ctx.records.nodes) {
      if (decision.dtype == DType::kFloat32 && keeps_fp32(decision)) fixed_.insert(decision.node);
    }
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
  // Pins of normalisations and the like, and residual sums, are about what a node computes in.
  static bool keeps_fp32(const NodeDecision& decision) {
    switch (decision.rule) {
      case Rule::kPolicy:
      case Rule::kRange:
      case Rule::kCalibration: return true;
      case Rule::kPin: return decision.cause.find(kKindIsPinned) == std::string::npos;
      case Rule::kPattern: return decision.cause != kResidualSumCause;
      default: return false;
    }
  }

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
    } else if (is_elementwise(node) || is_sum(node)) {
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
    if (is_move(node)) {
      return std::ranges::all_of(node.results(), [&](const Value* result) {
        return result == nullptr || is_low_or_narrow(*result);
      });
    }
    if (is_normalisation(node) || is_elementwise(node) || is_sum(node)) return true;
    if (node.is("ReduceMean")) return true;  // pools
    const Node& producer = *value.producer();
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
  std::unordered_set<std::string> fixed_;  // nodes, by name
  std::unordered_set<const Value*> narrow_;
};

}  // namespace

StatusOr<bool> narrow_storage(Model& model, PassContext& ctx) {
  const bool wanted = ctx.for_runtime && ctx.device != DeviceKind::kCpu && ctx.training &&
                      !ctx.policy.force_fp32 && ctx.policy.low == DType::kBFloat16;
  if (!wanted) return false;
  return Narrower(*model.graph, ctx).run();
}

}  // namespace mezzo::passes
