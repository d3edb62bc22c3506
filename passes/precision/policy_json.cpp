// Policies written as JSON, the counterpart of policy_file.cpp.

#include <nlohmann/json.hpp>

#include "compiler/support/json_util.h"
#include "passes/precision/policy_file.h"
#include "passes/precision/policy_words.h"

namespace mezzo::passes {
namespace {

using nlohmann::ordered_json;

ordered_json rule_json(const PolicyRule& rule) {
  ordered_json object;
  object["name"] = rule.name.empty() ? rule.origin : rule.name;  // so that reports still tell it
  if (rule.ops.size() == 1) object["op"] = rule.ops.front();
  if (rule.ops.size() > 1) object["op"] = rule.ops;
  if (rule.domain) object["domain"] = *rule.domain;
  if (!rule.node.empty()) object["node"] = rule.node;
  if (!rule.metadata.empty()) object["metadata"] = rule.metadata;
  object["set"] = effect_word(rule.effect);
  if (rule.operands) object["operands"] = *rule.operands;
  if (rule.results) object["results"] = *rule.results;
  return object;
}

// One member a line, and one element of an array; what is inside those stays on their line.
std::string laid_out(const ordered_json& object) {
  const auto dump = [](const ordered_json& value) {
    return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  };
  std::string text = "{";
  const char* separator = "\n";
  for (const auto& [key, value] : object.items()) {
    text += separator + std::string("  ") + dump(key) + ": ";
    separator = ",\n";
    if (!value.is_array() || value.empty()) {
      text += dump(value);
      continue;
    }
    text += "[";
    for (std::size_t i = 0; i < value.size(); ++i)
      text += (i == 0 ? "\n    " : ",\n    ") + dump(value[i]);
    text += "\n  ]";
  }
  return text + "\n}\n";
}

}  // namespace

std::string policy_json(const PrecisionPolicy& policy) {
  ordered_json object;
  object["version"] = 1;
  object["extends"] = "default";
  object["precision"] = precision_word(policy);
  object["io"] = word_of(policy.io, kIoWords);
  object["target"] = policy.target;
  object["assign"] = word_of(policy.assign, kAssignWords);
  if (policy.pad_channels == 0) object["pad_channels"] = "off";
  if (policy.pad_channels > 0) object["pad_channels"] = policy.pad_channels;
  object["pins"] = {{"embedding", pin_word(policy.embedding)},
                    {"normalization", pin_word(policy.normalization)},
                    {"softmax", pin_word(policy.softmax)},
                    {"loss", pin_word(policy.loss)},
                    {"output_layer", pin_word(policy.output_layer)},
                    {"residual_sum", pin_word(policy.residual_sum)}};
  object["categories"] = {{"allow", category_run_word(policy.allow)},
                          {"infer", category_run_word(policy.infer)},
                          {"clear", category_run_word(policy.clear)},
                          {"deny", category_run_word(policy.deny)}};
  object["range_check"] = range_check_word(policy.range_check);
  object["thresholds"] = {{"mask", policy.thresholds.mask},
                          {"activation", policy.thresholds.activation},
                          {"smallest_constant", policy.thresholds.smallest_constant},
                          {"min_flops", policy.thresholds.min_flops}};
  object["rules"] = ordered_json::array();
  for (const PolicyRule& rule : policy.all_rules()) object["rules"].push_back(rule_json(rule));
  object["calibration"] = {{"headroom", policy.calibration.headroom},
                           {"underflow", policy.calibration.underflow},
                           {"sums", policy.calibration.sums}};
  return laid_out(object);
}

}  // namespace mezzo::passes
