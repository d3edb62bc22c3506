#include "passes/precision/classify.h"

#include <algorithm>

#include "passes/cleanup/expand_functions.h"

namespace mezzo::passes {
namespace {

bool touches_fp32(const Node& node) {
  const auto is_fp32 = [](const Value* value) {
    return value != nullptr && value->dtype() == DType::kFloat32;
  };
  for (const Value* operand : node.operands()) {
    if (is_fp32(operand)) return true;
  }
  return std::any_of(node.results().begin(), node.results().end(), is_fp32);
}

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
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

// Settles a classification; true, so that callers can return it.
bool settle(Classification& out, Freedom freedom, Rule rule, std::string cause) {
  out.freedom = freedom;
  out.rule = rule;
  out.cause = std::move(cause);
  return true;
}

}  // namespace

StatusOr<Classifier> Classifier::create(const Model& model, const PassContext& ctx,
                                        std::unordered_map<const Node*, std::string> groups) {
  Classifier classifier(model, ctx, std::move(groups));
  for (const std::string& text : ctx.policy.pins) {
    MEZZO_ASSIGN_OR_RETURN(Pattern pattern, Pattern::compile(text, "--pin"));
    classifier.pins_.push_back(std::move(pattern));
  }
  return classifier;
}

Classification Classifier::classify(const Node& node) {
  Classification out;
  if (!touches_fp32(node) || node.is("Constant")) {  // constants take the type their users want
    settle(out, Freedom::kNotFloat, Rule::kNotFloat,
           node.is("Constant") ? "a constant" : "no FP32 operand or result");
    return out;
  }
  const OpDef* def = find_op(node);
  if (def != nullptr) out.category = def->precision;
  out.slots = low_slots(node, ctx_, opset_at(model_, *node.graph(), node.domain()));
  if (fixed_by_user(node, out)) return out;
  if (def == nullptr) {
    settle(out, Freedom::kFp32, Rule::kSchema, "operator unknown to mezzo: stays as it is");
    return out;
  }
  if (!node.subgraphs().empty() || node.is("CastLike")) {
    settle(out, Freedom::kFp32, Rule::kSchema, "types are tied to other values");
    return out;
  }
  if (fixed_by_pin(node, *def, out)) return out;
  if (!out.slots.possible) {
    settle(out, Freedom::kFp32, Rule::kSchema, out.slots.why_not);
    return out;
  }
  const std::string name(category_name(def->precision));
  if (def->precision == PrecisionCategory::kDeny) {
    settle(out, Freedom::kFp32, Rule::kCategory,
           name + ": " + node.op_type() + " is not safe in 16 bits");
    return out;
  }
  if (fixed_by_range(node, out)) return out;
  if (def->precision == PrecisionCategory::kAllow) {
    settle(out, Freedom::kLow, Rule::kCategory,
           name + ": " + node.op_type() + " accumulates in FP32");
  } else {
    settle(out, Freedom::kFree, Rule::kCut, name);
  }
  return out;
}

bool Classifier::fixed_by_user(const Node& node, Classification& out) const {
  if (ctx_.policy.force_fp32) return settle(out, Freedom::kFp32, Rule::kForced, "--fp32");
  for (const Pattern& pin : pins_) {
    const auto matches = [&](const Value* result) {
      return result != nullptr && pin.matches(result->name());
    };
    if (pin.matches(node.name) ||
        (node.name.empty() && std::any_of(node.results().begin(), node.results().end(), matches))) {
      return settle(out, Freedom::kFp32, Rule::kPin, "--pin " + pin.text());
    }
  }
  if (contains(ctx_.policy.deny_ops, node.op_type())) {
    return settle(out, Freedom::kFp32, Rule::kPolicy, "--deny-op " + node.op_type());
  }
  if (contains(ctx_.policy.allow_ops, node.op_type()) && out.slots.possible &&
      node.subgraphs().empty()) {
    return settle(out, Freedom::kLow, Rule::kPolicy, "--allow-op " + node.op_type());
  }
  return false;
}

bool Classifier::fixed_by_pin(const Node& node, const OpDef& def, Classification& out) const {
  const auto pinned = [&](PinKind kind) {
    switch (kind) {
      case PinKind::kEmbedding: return ctx_.policy.pin_embedding;
      case PinKind::kNormalization: return ctx_.policy.pin_normalization;
      case PinKind::kSoftmax: return ctx_.policy.pin_softmax;
      case PinKind::kLoss: return ctx_.policy.pin_loss;
      case PinKind::kNone: return false;
    }
    return false;
  };
  if (const auto group = groups_.find(&node); group != groups_.end()) {
    return settle(out, Freedom::kFp32, Rule::kPattern, "part of a decomposed " + group->second);
  }
  if (is_residual_sum(node))
    return settle(out, Freedom::kFp32, Rule::kPattern,
                  "residual sum: the stream between blocks stays FP32");
  if (!pinned(def.pin)) return false;
  if (def.pin == PinKind::kEmbedding && node.is("Gather") && !looks_up_weight(node)) return false;
  return settle(out, Freedom::kFp32, Rule::kPin,
                std::string(pin_name(def.pin)) + " is pinned to FP32");
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
  std::string cause = ranges_.why_fp32(node, out.slots, out.category);
  return !cause.empty() && settle(out, Freedom::kFp32, Rule::kRange, std::move(cause));
}

}  // namespace mezzo::passes
