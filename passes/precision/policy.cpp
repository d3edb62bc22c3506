#include "passes/precision/policy.h"

#include "compiler/ops/op_def.h"
#include "compiler/support/text.h"
#include "passes/precision/policy_words.h"

namespace mezzo::passes {
namespace {

std::string conditions(const PolicyRule& rule) {
  std::vector<std::string> parts;
  if (!rule.ops.empty()) parts.push_back("op " + join(rule.ops, "|"));
  if (rule.domain) parts.push_back("domain '" + *rule.domain + "'");
  if (!rule.node.empty()) parts.push_back("node " + rule.node);
  for (const auto& [key, value] : rule.metadata)
    parts.push_back(std::string("metadata ").append(key).append("=").append(value));
  return parts.empty() ? "every node" : join(parts, ", ");
}

std::string all_texts(const std::vector<PolicyRule>& rules) {
  std::vector<std::string> texts;
  for (const PolicyRule& rule : rules) {
    texts.push_back(source_of(rule) + ": " + conditions(rule) + " -> " +
                    std::string(effect_word(rule.effect)));
  }
  return join(texts, "; ");
}

std::string_view switch_word(bool on) { return on ? "on" : "off"; }

PolicyRule rule_for(std::string origin, RuleEffect effect) {
  PolicyRule rule;
  rule.origin = std::move(origin);
  rule.effect = effect;
  return rule;
}

}  // namespace

std::string_view pin_word(Pin pin) { return word_of(pin, kPinWords); }
std::string_view category_run_word(CategoryRun run) { return word_of(run, kRunWords); }
std::string_view range_check_word(RangeChecks checks) { return word_of(checks, kRangeCheckWords); }
std::string_view effect_word(RuleEffect effect) { return word_of(effect, kEffectWords); }

std::string source_of(const PolicyRule& rule) {
  return rule.name.empty() ? rule.origin : rule.origin + " (" + rule.name + ")";
}

Pin PrecisionPolicy::pin(PinKind kind) const {
  switch (kind) {
    case PinKind::kEmbedding: return embedding;
    case PinKind::kNormalization: return normalization;
    case PinKind::kSoftmax: return softmax;
    case PinKind::kLoss: return loss;
    case PinKind::kNone: return Pin::kFree;
  }
  return Pin::kFree;
}

CategoryRun PrecisionPolicy::run(PrecisionCategory category) const {
  switch (category) {
    case PrecisionCategory::kAllow: return allow;
    case PrecisionCategory::kInfer: return infer;
    case PrecisionCategory::kClear: return clear;
    case PrecisionCategory::kDeny: return deny;
  }
  return CategoryRun::kFp32;
}

std::vector<PolicyRule> PrecisionPolicy::all_rules() const {
  std::vector<PolicyRule> all = rules;
  for (const std::string& op : allow_ops) {
    all.push_back(rule_for("--allow-op " + op, RuleEffect::kLow));
    all.back().ops = {op};
  }
  for (const std::string& op : deny_ops) {
    all.push_back(rule_for("--deny-op " + op, RuleEffect::kFp32));
    all.back().ops = {op};
  }
  for (const std::string& pattern : pins) {
    all.push_back(rule_for("--pin " + pattern, RuleEffect::kFp32));
    all.back().node = pattern.empty() ? ".*" : pattern;
  }
  return all;
}

std::vector<std::pair<std::string, std::string>> PrecisionPolicy::describe() const {
  const auto word = [](std::string_view text) { return std::string(text); };
  return {
      {"policy", name},
      {"precision", word(precision_word(*this))},
      {"assign", word(word_of(assign, kAssignWords))},
      {"io", word(word_of(io, kIoWords))},
      {"target", target},
      {"pad_channels", pad_channels == 0 ? "off" : std::to_string(pad_channels)},
      {"pins.embedding", word(pin_word(embedding))},
      {"pins.normalization", word(pin_word(normalization))},
      {"pins.softmax", word(pin_word(softmax))},
      {"pins.loss", word(pin_word(loss))},
      {"pins.output_layer", word(pin_word(output_layer))},
      {"pins.residual_sum", word(pin_word(residual_sum))},
      {"categories.allow", word(category_run_word(allow))},
      {"categories.infer", word(category_run_word(infer))},
      {"categories.clear", word(category_run_word(clear))},
      {"categories.deny", word(category_run_word(deny))},
      {"range_check", word(range_check_word(range_check))},
      {"thresholds.mask", format_number(thresholds.mask)},
      {"thresholds.activation", format_number(thresholds.activation)},
      {"thresholds.smallest_constant", format_number(thresholds.smallest_constant)},
      {"thresholds.min_flops", format_number(thresholds.min_flops)},
      {"calibration.headroom", format_number(calibration.headroom)},
      {"calibration.underflow", word(switch_word(calibration.underflow))},
      {"calibration.sums", word(switch_word(calibration.sums))},
      {"rules", all_texts(all_rules())},
  };
}

}  // namespace mezzo::passes
