#include "passes/precision/classify.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "passes/precision/output_layers.h"

namespace mezzo::passes {
namespace {

bool touches_fp32(const Node& node) {
  for (const Value* operand : node.operands()) {
    if (is_fp32(operand)) return true;
  }
  return std::any_of(node.results().begin(), node.results().end(), is_fp32);
}

// A Gather from a floating-point weight looks up an embedding; from an activation it moves data.
bool looks_up_weight(const Node& node) {
  const Value* table = node.operand(0);
  while (table != nullptr && table->producer() != nullptr &&
         (table->producer()->is("Identity") || table->producer()->is("Cast"))) {
    table = table->producer()->operand(0);
  }
  return table != nullptr && table->is_initializer() && is_floating(table->dtype());
}

// Elements that meet in one place are added up, or otherwise joined, in their own type: a sum.
bool joins_elements(const Node& node) {
  const std::string reduction = node.string_attribute("reduction", "none");
  return (node.is("ScatterElements") || node.is("ScatterND")) && reduction != "none";
}

// Settles a classification; true, so that callers can return it.
bool settle(Classification& out, Freedom freedom, Rule rule, std::string cause) {
  out.freedom = freedom;
  out.rule = rule;
  out.cause = std::move(cause);
  return true;
}

}  // namespace

DType low_already(const Node& node) {
  if (node.is("Constant")) return DType::kNone;
  for (const auto& values : {node.results(), node.operands()}) {
    for (const Value* value : values) {
      if (value != nullptr && is_low(value->dtype())) return value->dtype();
    }
  }
  return DType::kNone;
}

StatusOr<Classifier> Classifier::create(const Model& model, const PassContext& ctx,
                                        std::unordered_map<const Node*, std::string> groups) {
  MEZZO_ASSIGN_OR_RETURN(RuleMatcher rules, RuleMatcher::create(ctx.policy));
  Classifier classifier(model, ctx, std::move(groups), std::move(rules));
  if (ctx.policy.output_layer == Pin::kFp32) {
    std::set<std::string> gradients;
    if (ctx.training) {
      for (const auto& [parameter, gradient] : ctx.training->gradients) gradients.insert(gradient);
    }
    classifier.output_layers_ = output_layers(*model.graph, gradients);
  }
  return classifier;
}

Classification Classifier::classify(const Node& node) {
  Classification out;
  if (!touches_fp32(node) || node.is("Constant")) {  // constants take the type their users want
    settle(out, Freedom::kNotFloat, Rule::kNotFloat,
           node.is("Constant") ? "a constant"
           : low_already(node) != DType::kNone
               ? "is " + std::string(dtype_name(low_already(node))) + " already"
               : "no FP32 operand or result");
    return out;
  }
  const OpDef* def = find_op(node);
  if (def != nullptr)
    out.category = joins_elements(node) ? PrecisionCategory::kDeny : def->precision;
  out.slots = low_slots(node, ctx_, functions_.opset(*node.graph(), node.domain()));
  if (ctx_.policy.force_fp32) {
    settle(out, Freedom::kFp32, Rule::kForced, "--fp32");
    return out;
  }
  const PolicyRule* rule = rules_.find(node, spelled(node));
  if (rule != nullptr && fixed_by_rule(node, *rule, out)) return out;
  if (def == nullptr && !out.slots.possible) {
    settle(out, Freedom::kFp32, Rule::kSchema, "operator unknown to mezzo: stays as it is");
    return out;
  }
  if (!node.subgraphs().empty()) {
    settle(out, Freedom::kFp32, Rule::kSchema, "types are tied to other values");
    return out;
  }
  if (rule == nullptr && def != nullptr && fixed_by_pin(node, *def, out)) return out;
  if (!out.slots.possible) {
    settle(out, Freedom::kFp32, Rule::kSchema, out.slots.why_not);
    return out;
  }
  if (fixed_by_category(node, rule, out)) return out;
  if (fixed_by_range(node, out)) return out;
  if (fixed_by_calibration(node, out)) return out;
  if (rule == nullptr && ctx_.policy.embedding == Pin::kLow && node.is("Gather") &&
      looks_up_weight(node)) {
    settle(out, Freedom::kLow, Rule::kPin, "embedding is stored low");
  } else {
    follow_category(node, rule, out);
  }
  return out;
}

// Patterns count as the operator they spell, unless their pin is lifted: then as their parts.
std::string Classifier::spelled(const Node& node) const {
  const auto group = groups_.find(&node);
  const bool counts = group != groups_.end() && group_pin(group->second) != Pin::kFree;
  return counts ? group->second : node.op_type();
}

Pin Classifier::group_pin(const std::string& group) const {
  constexpr std::string_view kOfExponentials[] = {"Softmax", "LogSoftmax", "ReduceLogSumExp",
                                                  "Softplus", "Sigmoid"};
  const bool exponential = std::find(std::begin(kOfExponentials), std::end(kOfExponentials),
                                     group) != std::end(kOfExponentials);
  return ctx_.policy.pin(exponential ? PinKind::kSoftmax : PinKind::kNormalization);
}

// Where the rule only changes the category it is noted in `out`, and other reasons may follow.
bool Classifier::fixed_by_rule(const Node& node, const PolicyRule& rule,
                               Classification& out) const {
  const std::string cause = source_of(rule);
  if (!ctx_.for_runtime && takes_slots_from_rules(node, model_, functions_))
    out.slots = slots_by_rule(node, rule);
  switch (rule.effect) {
    case RuleEffect::kFp32:
      // A region or an operator kept by name.
      return settle(out, Freedom::kFp32, rule.ops.empty() ? Rule::kPin : Rule::kPolicy, cause);
    case RuleEffect::kLow:
      if (!out.slots.possible || !node.subgraphs().empty()) return false;
      return settle(out, Freedom::kLow, Rule::kPolicy, cause);
    case RuleEffect::kFp32Statistics:
      if (!keeps_statistics(node, out))
        return settle(out, Freedom::kFp32, Rule::kPolicy,
                      cause + ": this form does not keep its statistics in FP32");
      out.category = PrecisionCategory::kInfer;
      return false;
    case RuleEffect::kAllow: out.category = PrecisionCategory::kAllow; return false;
    case RuleEffect::kInfer: out.category = PrecisionCategory::kInfer; return false;
    case RuleEffect::kClear: out.category = PrecisionCategory::kClear; return false;
    case RuleEffect::kDeny: out.category = PrecisionCategory::kDeny; return false;
  }
  return false;
}

bool Classifier::fixed_by_pin(const Node& node, const OpDef& def, Classification& out) const {
  if (!ctx_.loss_scope.empty() && ctx_.policy.pin(PinKind::kLoss) == Pin::kFp32 &&
      node.name.starts_with(ctx_.loss_scope + "/"))
    return settle(out, Freedom::kFp32, Rule::kPin, "loss is pinned to FP32");
  if (const auto group = groups_.find(&node);
      group != groups_.end() && group_pin(group->second) != Pin::kFree) {
    return settle(out, Freedom::kFp32, Rule::kPattern, "part of a decomposed " + group->second);
  }
  if (ctx_.policy.residual_sum == Pin::kFp32 && is_residual_sum(node))
    return settle(out, Freedom::kFp32, Rule::kPattern, std::string(kResidualSumCause));
  if (output_layers_.count(&node) > 0)
    return settle(out, Freedom::kFp32, Rule::kPin, "output layer is pinned to FP32");
  if (def.pin == PinKind::kEmbedding && node.is("Gather") && !looks_up_weight(node)) return false;
  const std::string kind(pin_name(def.pin));
  switch (ctx_.policy.pin(def.pin)) {
    case Pin::kFree:
    case Pin::kLow: return false;  // see classify()
    case Pin::kFp32: break;
    case Pin::kFp32Statistics:
      if (keeps_statistics(node, out)) return false;
      return settle(
          out, Freedom::kFp32, Rule::kPin,
          kind + std::string(kKindIsPinned) + ": this form does not keep its statistics in it");
  }
  return settle(out, Freedom::kFp32, Rule::kPin, kind + std::string(kKindIsPinned));
}

// Does the operator compute mean and variance in FP32 although its data are low?
bool Classifier::keeps_statistics(const Node& node, const Classification& out) const {
  if (ctx_.for_runtime) return out.category == PrecisionCategory::kInfer;  // our kernels all do
  if (node.is("BatchNormalization")) {
    // From opset 14 on mean and variance have a type of their own, and those of a batch are
    // computed in FP32.
    const std::vector<bool>& low = out.slots.operands;
    return low.size() > 4 && !low[3] && !low[4];
  }
  constexpr std::string_view kWithStash[] = {"LayerNormalization", "RMSNormalization",
                                             "GroupNormalization", "SimplifiedLayerNormalization"};
  if (std::find(std::begin(kWithStash), std::end(kWithStash), node.op_type()) ==
      std::end(kWithStash))
    return false;
  // GroupNormalization has stash_type from opset 21 on.
  if (node.is("GroupNormalization") && functions_.opset(*node.graph(), "") < 21) return false;
  return node.int_attribute("stash_type", 1) == 1;
}

bool Classifier::fixed_by_category(const Node& node, const PolicyRule* rule,
                                   Classification& out) const {
  if (ctx_.policy.run(out.category) != CategoryRun::kFp32) return false;
  const std::string name(category_name(out.category));
  if (rule != nullptr)
    return settle(out, Freedom::kFp32, Rule::kPolicy, name + " by " + source_of(*rule));
  if (out.category == PrecisionCategory::kDeny) {
    return settle(out, Freedom::kFp32, Rule::kCategory,
                  name + ": " + node.op_type() + " is not safe in 16 bits");
  }
  out.category = PrecisionCategory::kDeny;
  return settle(out, Freedom::kFp32, Rule::kPolicy, name + ": FP32 by the policy's categories");
}

// Low or free, as the category runs. `out.category` becomes what painting takes the node for.
void Classifier::follow_category(const Node& node, const PolicyRule* rule,
                                 Classification& out) const {
  const PrecisionCategory category = out.category;
  const std::string name(category_name(category));
  const std::string by = rule == nullptr ? "" : " by " + source_of(*rule);
  if (ctx_.policy.run(category) == CategoryRun::kFree) {
    if (category != PrecisionCategory::kClear) out.category = PrecisionCategory::kInfer;
    settle(out, Freedom::kFree, Rule::kCut, name + by);
    return;
  }
  out.category = PrecisionCategory::kAllow;
  if (category != PrecisionCategory::kAllow) {
    settle(out, Freedom::kLow, Rule::kPolicy,
           name + (rule == nullptr ? ": low by the policy's categories" : by));
    return;
  }
  const double work = flops(node);
  if (work > 0 && work < ctx_.policy.thresholds.min_flops) {
    out.category = PrecisionCategory::kInfer;
    settle(out, Freedom::kFree, Rule::kCut, name + by + ", under the least FLOPs of the policy");
    return;
  }
  if (rule != nullptr) {
    settle(out, Freedom::kLow, Rule::kPolicy, name + by);
    return;
  }
  const bool attention =
      node.domain() == kMezzoDomain && node.op_type().starts_with("ScaledDotProductAttention");
  settle(out, Freedom::kLow, Rule::kCategory,
         name + ": " + node.op_type() +
             (attention ? " keeps scores and Softmax in FP32" : " accumulates in FP32"));
}

// Rounding the stream that passes every block adds up over depth, so training keeps its sums in
// FP32, as PyTorch's type promotion does wherever one side is FP32: on resnet8 in BF16 the weights
// end 13 % nearer to the FP32 run after 60 steps.
bool Classifier::is_residual_sum(const Node& node) const {
  if (!ctx_.training || !node.is("Add")) return false;
  const auto is_activation = [](const Value* value) {
    return value != nullptr && value->type.is_tensor() && value->producer() != nullptr &&
           !constant_data(*value) && value->tensor_type().rank().value_or(0) >= 2;
  };
  const Value *a = node.operand(0), *b = node.operand(1);
  return is_activation(a) && is_activation(b) && a->tensor_type().shape == b->tensor_type().shape;
}

bool Classifier::fixed_by_range(const Node& node, Classification& out) {
  if (ctx_.policy.range_check == RangeChecks::kOff) return false;
  if (ctx_.policy.range_check == RangeChecks::kConstants) {
    for (std::size_t i = 0; i < node.operand_count(); ++i) {
      const Value* operand = node.operand(i);
      if (operand == nullptr || i >= out.slots.operands.size() || !out.slots.operands[i]) continue;
      const ConstantRange& range = ranges_.check(*operand);
      if (!range.fits)
        return settle(out, Freedom::kFp32, Rule::kRange,
                      "constant '" + operand->name() + "' " + range.why);
    }
    return false;
  }
  std::string cause = ranges_.why_fp32(node, out.slots, out.category);
  return !cause.empty() && settle(out, Freedom::kFp32, Rule::kRange, std::move(cause));
}

bool Classifier::fixed_by_calibration(const Node& node, Classification& out) const {
  if (!calibration_) return false;
  std::string cause = calibration_->why_fp32(node, out.slots, ranges_.reach());
  return !cause.empty() && settle(out, Freedom::kFp32, Rule::kCalibration, std::move(cause));
}

std::string Classifier::measured_cause(const Value& value) const {
  return calibration_ ? calibration_->why_not(value, ranges_.reach()) : std::string();
}

}  // namespace mezzo::passes
