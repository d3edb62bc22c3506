#include "passes/precision/policy_file.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "compiler/ops/schema.h"
#include "compiler/support/json_util.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/text.h"
#include "passes/precision/cost_model.h"
#include "passes/precision/policy_reader.h"

namespace mezzo::passes {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;
constexpr int kMostNesting = 8;
constexpr std::size_t kMostRules = 4096;
constexpr int kMostExtends = 8;
constexpr int kVersion = 1;
constexpr std::int64_t kNewestOpset = std::numeric_limits<std::int32_t>::max();

constexpr Word<PolicyFile::Precision> kPrecisions[] = {{"auto", PolicyFile::Precision::kAuto},
                                                       {"fp16", PolicyFile::Precision::kFp16},
                                                       {"bf16", PolicyFile::Precision::kBf16},
                                                       {"fp32", PolicyFile::Precision::kFp32}};
constexpr Word<int> kPadding[] = {{"off", 0}, {"8", 8}, {"16", 16}, {"32", 32}, {"64", 64}};

using ReadField = Status (*)(const Place& at, PolicyFile& out);
using ReadRuleField = Status (*)(const Place& at, PolicyRule& out);

Status read_metadata(const Place& at, PolicyRule& rule) {
  if (!at.value.is_object() || at.value.empty())
    return at.wrong("an object of metadata keys and expressions");
  if (at.value.size() > kMostWords)
    return at.wrong("at most " + std::to_string(kMostWords) + " keys");
  rule.metadata.clear();
  for (const auto& [key, value] : at.value.items()) {
    MEZZO_RETURN_IF_ERROR(
        read_pattern({value, at.where + "." + printable(key, 60)}, rule.metadata[key]));
  }
  return ok_status();
}

// --- fields of a rule -----------------------------------------------------------------------

constexpr Field<ReadRuleField> kRuleFields[] = {
    {"name", [](const Place& at, PolicyRule& out) { return read_text(at, out.name); }},
    {"op", [](const Place& at, PolicyRule& out) { return read_texts(at, out.ops); }},
    {"domain",
     [](const Place& at, PolicyRule& out) {
       MEZZO_RETURN_IF_ERROR(read_text(at, out.domain.emplace()));
       if (*out.domain == "ai.onnx") out.domain = "";
       return ok_status();
     }},
    {"node", [](const Place& at, PolicyRule& out) { return read_pattern(at, out.node); }},
    {"metadata", read_metadata},
    {"set", [](const Place& at,
               PolicyRule& out) { return read_word<RuleEffect>(at, kEffectWords, out.effect); }},
    {"operands", [](const Place& at, PolicyRule& out) { return read_slots(at, out.operands); }},
    {"results", [](const Place& at, PolicyRule& out) { return read_slots(at, out.results); }},
};

Status read_rule(const Place& at, PolicyRule& rule) {
  MEZZO_RETURN_IF_ERROR(read_object(at, kRuleFields, rule));
  const auto needs = [&](std::string_view what) {
    return invalid_argument(at.where + ": expected " + std::string(what));
  };
  if (!at.value.contains("set"))
    return needs(
        "'set', which says how the nodes run: fp32, low, fp32-statistics, allow, infer, clear or "
        "deny");
  if (rule.ops.empty() && rule.node.empty() && rule.metadata.empty() && !rule.domain)
    return needs("'op', 'domain', 'node' or 'metadata', which say for which nodes it holds");
  if (!rule.operands && !rule.results) return ok_status();
  if (rule.ops.empty())
    return needs("'op' beside 'operands' and 'results': positions belong to an operator");
  if (rule.effect == RuleEffect::kFp32 || rule.effect == RuleEffect::kFp32Statistics ||
      rule.effect == RuleEffect::kDeny) {
    return needs("no 'operands' and 'results' in a rule that keeps FP32: they say what is low");
  }
  for (const std::string& op : rule.ops) {
    if (has_schema(op, rule.domain.value_or(""), kNewestOpset)) {
      return needs("no 'operands' and 'results' for '" + printable(op, 60) +
                   "', whose schema says what may be low. Hint: they are for custom operators; "
                   "give 'domain' if this is one");
    }
  }
  return ok_status();
}

Status read_rules(const Place& at, PolicyFile& out) {
  MEZZO_RETURN_IF_ERROR(check_size(at, kMostRules, "rules"));
  for (std::size_t i = 0; i < at.value.size(); ++i) {
    PolicyRule rule;
    rule.origin = at.where + "[" + std::to_string(i) + "]";
    MEZZO_RETURN_IF_ERROR(read_rule({at.value[i], rule.origin}, rule));
    out.policy.rules.push_back(std::move(rule));
  }
  return ok_status();
}

// --- fields of the policy -------------------------------------------------------------------

template <Pin PrecisionPolicy::*kMember, Pin... kTaken>
Status read_pin(const Place& at, PolicyFile& out) {
  static constexpr Word<Pin> kWords[] = {{word_of(kTaken, kPinWords), kTaken}...};
  return read_word<Pin>(at, kWords, out.policy.*kMember);
}
constexpr Field<ReadField> kPinFields[] = {
    {"embedding", read_pin<&PrecisionPolicy::embedding, Pin::kFp32, Pin::kLow, Pin::kFree>},
    {"normalization",
     read_pin<&PrecisionPolicy::normalization, Pin::kFp32, Pin::kFp32Statistics, Pin::kFree>},
    {"softmax", read_pin<&PrecisionPolicy::softmax, Pin::kFp32, Pin::kFree>},
    {"loss", read_pin<&PrecisionPolicy::loss, Pin::kFp32, Pin::kFree>},
    {"output_layer", read_pin<&PrecisionPolicy::output_layer, Pin::kFp32, Pin::kFree>},
    {"residual_sum", read_pin<&PrecisionPolicy::residual_sum, Pin::kFp32, Pin::kFree>},
};

template <CategoryRun PrecisionPolicy::*kMember>
Status read_run(const Place& at, PolicyFile& out) {
  return read_word<CategoryRun>(at, kRunWords, out.policy.*kMember);
}
constexpr Field<ReadField> kCategoryFields[] = {
    {"allow", read_run<&PrecisionPolicy::allow>},
    {"infer", read_run<&PrecisionPolicy::infer>},
    {"clear", read_run<&PrecisionPolicy::clear>},
    {"deny", read_run<&PrecisionPolicy::deny>},
};

constexpr double kLargest = std::numeric_limits<double>::max();
constexpr Field<ReadField> kThresholdFields[] = {
    {"mask",
     [](const Place& at, PolicyFile& out) {
       return read_number(at, -kLargest, 0, "a number of at most 0", out.policy.thresholds.mask);
     }},
    {"activation",
     [](const Place& at, PolicyFile& out) {
       return read_number(at, 1, kLargest, "a number of at least 1",
                          out.policy.thresholds.activation);
     }},
    {"smallest_constant",
     [](const Place& at, PolicyFile& out) {
       return read_number(at, 0, kLargest, "a number of at least 0",
                          out.policy.thresholds.smallest_constant);
     }},
    {"min_flops",
     [](const Place& at, PolicyFile& out) {
       return read_number(at, 0, kLargest, "a number of at least 0",
                          out.policy.thresholds.min_flops);
     }},
};

Status read_target(const Place& at, PolicyFile& out) {
  const std::vector<std::string> names = target_names();
  std::vector<Word<std::string_view>> words;
  for (const std::string& name : names) words.push_back({name, name});
  std::string_view chosen;
  MEZZO_RETURN_IF_ERROR(read_word<std::string_view>(at, words, chosen));
  out.policy.target = std::string(chosen);
  return ok_status();
}

Status read_version(const Place& at, PolicyFile&) {
  if (at.value.is_number_integer() && at.value == kVersion) return ok_status();
  return at.wrong(std::to_string(kVersion) + ", the format of this version of mezzo");
}

Status ignore_text(const Place& at, PolicyFile&) {
  return at.value.is_string() ? ok_status() : at.wrong("text");
}

Status read_padding(const Place& at, PolicyFile& out) {
  for (const Word<int>& word : kPadding) {
    if (at.value.is_number_integer() && word.value > 0 && at.value == word.value) {
      out.policy.pad_channels = word.value;
      return ok_status();
    }
  }
  if (at.value != "off") return at.wrong("8, 16, 32, 64 or \"off\"");
  out.policy.pad_channels = 0;
  return ok_status();
}

template <bool CalibrationThresholds::*kMember>
Status read_switch(const Place& at, PolicyFile& out) {
  if (!at.value.is_boolean()) return at.wrong("true or false");
  out.policy.calibration.*kMember = at.value.get<bool>();
  return ok_status();
}
constexpr Field<ReadField> kCalibrationFields[] = {
    {"headroom",
     [](const Place& at, PolicyFile& out) {
       return read_number(at, 1, kLargest, "a number of at least 1",
                          out.policy.calibration.headroom);
     }},
    {"underflow", read_switch<&CalibrationThresholds::underflow>},
    {"sums", read_switch<&CalibrationThresholds::sums>},
};

// null: as in the policy that it extends.
Status read_calibration(const Place& at, PolicyFile& out) {
  return at.value.is_null() ? ok_status() : read_object(at, kCalibrationFields, out);
}

constexpr Field<ReadField> kFields[] = {
    {"$schema", ignore_text},
    {"version", read_version},
    {"description", ignore_text},
    // The base has been read by then.
    {"extends", ignore_text},
    {"precision",
     [](const Place& at, PolicyFile& out) {
       return read_word<PolicyFile::Precision>(at, kPrecisions, out.precision);
     }},
    {"io", [](const Place& at,
              PolicyFile& out) { return read_word<IoTypes>(at, kIoWords, out.policy.io); }},
    {"target", read_target},
    {"assign",
     [](const Place& at, PolicyFile& out) {
       return read_word<AssignMethod>(at, kAssignWords, out.policy.assign);
     }},
    {"pad_channels", read_padding},
    {"pins", [](const Place& at, PolicyFile& out) { return read_object(at, kPinFields, out); }},
    {"categories",
     [](const Place& at, PolicyFile& out) { return read_object(at, kCategoryFields, out); }},
    {"rules", read_rules},
    {"range_check",
     [](const Place& at, PolicyFile& out) {
       return read_word<RangeChecks>(at, kRangeCheckWords, out.policy.range_check);
     }},
    {"thresholds",
     [](const Place& at, PolicyFile& out) { return read_object(at, kThresholdFields, out); }},
    {"calibration", read_calibration},
};

// --- the whole -------------------------------------------------------------------------------

// Brackets open at once, those in texts aside.
int nesting(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text && c == '\\') ++i;
    if (c == '"') in_text = !in_text;
    if (in_text) continue;
    if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
    if (c == '}' || c == ']') --depth;
  }
  return deepest;
}

StatusOr<PolicyFile> preset_at(std::string_view name, std::string_view asked_by, int depth);

StatusOr<PolicyFile> parse(std::string_view text, std::string_view where, std::string_view name,
                           int depth) {
  const std::string file(where);
  if (text.size() > kMostBytes) {
    return invalid_argument(file + ": expected at most " + format_bytes(kMostBytes) +
                            " of JSON, got " + format_bytes(text.size()));
  }
  if (const int deepest = nesting(text); deepest > kMostNesting) {
    return invalid_argument(file + ": expected at most " + std::to_string(kMostNesting) +
                            " brackets in one another, got " + std::to_string(deepest));
  }
  MEZZO_ASSIGN_OR_RETURN(const json object, parse_json(text, where));
  if (!object.is_object()) {
    return invalid_argument(file +
                            ": expected a JSON object, such as {\"extends\": \"inference\"}");
  }
  PolicyFile out;
  std::string base = "default";
  const auto extends = object.find("extends");
  if (extends != object.end())
    MEZZO_RETURN_IF_ERROR(read_text({*extends, file + ": extends"}, base));
  const bool starts_the_chain = extends == object.end() && name == base;
  if (!starts_the_chain) {
    MEZZO_ASSIGN_OR_RETURN(out, preset_at(base, file + ": extends", depth + 1));
  }
  out.policy.name = std::string(name);
  MEZZO_RETURN_IF_ERROR(read_object({object, file + ": "}, kFields, out));
  return out;
}

StatusOr<PolicyFile> preset_at(std::string_view name, std::string_view asked_by, int depth) {
  for (const Preset& preset : presets()) {
    if (preset.name != name) continue;
    if (depth > kMostExtends) return internal_error("presets extend one another without end");
    return parse(preset.json, preset.name, preset.name, depth);
  }
  const std::vector<std::string> names = preset_names();
  return invalid_argument(std::string(asked_by) + " '" + printable(name, 60) +
                          "': no such preset." + did_you_mean(name, names) + " There are " +
                          join(names, ", "));
}

template <typename Fields>
std::vector<std::string> keys_of(const Fields& fields) {
  std::vector<std::string> keys;
  for (const auto& field : fields) keys.emplace_back(field.key);
  return keys;
}

}  // namespace

PrecisionPolicy PolicyFile::resolve() const {
  PrecisionPolicy resolved = policy;
  resolved.force_fp32 = precision == Precision::kFp32;
  const bool bf16 =
      precision == Precision::kBf16 || (precision != Precision::kFp16 && policy.target != "v100");
  resolved.low = bf16 ? DType::kBFloat16 : DType::kFloat16;
  return resolved;
}

StatusOr<PolicyFile> parse_policy(std::string_view json, std::string_view where) {
  return parse(json, where, where, 0);
}

StatusOr<PolicyFile> read_policy(const std::string& path) {
  MEZZO_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  return parse_policy({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, printable(path));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

StatusOr<PolicyFile> find_preset(std::string_view name) { return preset_at(name, "--preset", 0); }

std::vector<std::pair<std::string, std::vector<std::string>>> policy_keys() {
  return {{"", keys_of(kFields)},
          {"pins", keys_of(kPinFields)},
          {"categories", keys_of(kCategoryFields)},
          {"thresholds", keys_of(kThresholdFields)},
          {"calibration", keys_of(kCalibrationFields)},
          {"rules[]", keys_of(kRuleFields)}};
}

}  // namespace mezzo::passes
