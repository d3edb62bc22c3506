// The policy of one run: which low type, what is pinned, which rules hold. Read from a policy file
// or a preset (policy_file.h) and from options on top, printed in every report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/support/dtype.h"

namespace mezzo {
enum class PinKind : std::uint8_t;
enum class PrecisionCategory : std::uint8_t;
}  // namespace mezzo

namespace mezzo::passes {

enum class AssignMethod : std::uint8_t { kCut, kPropagate };
enum class IoTypes : std::uint8_t { kKeep, kLow };

// What a pin does with the nodes of its kind (PinKind).
enum class Pin : std::uint8_t {
  kFp32,
  kFp32Statistics,  // normalisations: low data where the operator keeps its statistics FP32
  kLow,             // embeddings: stored and looked up low
  kFree,            // no pin: the operator's category decides
};
std::string_view pin_word(Pin pin);  // "fp32", "fp32-statistics", "low", "free"

// How the nodes of a category run.
enum class CategoryRun : std::uint8_t { kLow, kFree, kFp32 };
std::string_view category_run_word(CategoryRun run);  // "low", "free", "fp32"

enum class RuleEffect : std::uint8_t {
  kFp32,
  kLow,             // whatever the constants
  kFp32Statistics,  // as infer where the operator keeps its statistics FP32, else FP32
  kAllow,
  kInfer,
  kClear,
  kDeny,  // as if the catalogue gave this category
};
std::string_view effect_word(RuleEffect effect);  // "fp32", "low", "allow", ...

// Nodes that match every condition given are treated as `effect` says.
struct PolicyRule {
  std::string name;    // for people; may be empty
  std::string origin;  // "policy.json: rules[2]" or "--pin ^head": begins the cause in the report
  std::vector<std::string> ops;                 // operator types; empty: any
  std::optional<std::string> domain;            // of the operator; none: any
  std::string node;                             // regular expression on node names; "": any
  std::map<std::string, std::string> metadata;  // key -> regular expression on its value
  RuleEffect effect = RuleEffect::kFp32;
  // For operators that neither ONNX nor mezzo describes: which operands and results take the low
  // type. None: all that are FP32.
  std::optional<std::vector<std::int64_t>> operands, results;

  bool operator==(const PolicyRule&) const = default;
};

// What is looked at to keep nodes in FP32 whose values the low type cannot hold.
enum class RangeChecks : std::uint8_t {
  kGraph,      // constants, and what the graph makes of them; see RangeCheck::why_fp32
  kConstants,  // constants alone
  kOff,
};
std::string_view range_check_word(RangeChecks checks);  // "graph", "constants", "off"

struct PolicyThresholds {
  // A constant at or below this that is only chosen becomes the low type's lowest value. Exporters
  // write -1e4, -1e9, -3.4e38 for "never".
  double mask = -1e4;
  // An activation of which nothing is known counts as this large, see RangeLimits.
  double activation = 64;
  // A constant all of whose elements are below this (an epsilon) keeps its node in FP32. 0: the low
  // type's smallest normal number.
  double smallest_constant = 0;
  // Nodes of category allow with less work than this do not have to run low: the cut decides.
  double min_flops = 0;

  bool operator==(const PolicyThresholds&) const = default;
};

// What ranges measured on samples (`convert --calibrate`) keep in FP32, see calibration.h.
struct CalibrationThresholds {
  // A tensor may come as near to the largest value as this factor: what samples show is not all
  // that will come.
  double headroom = 2;
  bool underflow = true;  // tensors and divisors that are too small for the low type
  bool sums = true;       // sums that pass the largest value on the way

  bool operator==(const CalibrationThresholds&) const = default;
};

struct PrecisionPolicy {
  std::string name = "default";  // preset or file it comes from
  DType low = DType::kFloat16;   // kFloat16 or kBFloat16
  bool force_fp32 = false;       // --fp32: everything stays
  AssignMethod assign = AssignMethod::kCut;
  IoTypes io = IoTypes::kKeep;
  std::string target = "cpu";  // cost model: cpu, v100, a100, h100
  int pad_channels = 0;        // 0: off; else 8, 16, 32, 64
  Pin embedding = Pin::kFp32;  // kFp32, kLow, kFree
  Pin normalization = Pin::kFp32;
  Pin softmax = Pin::kFp32;       // kFp32, kFree
  Pin loss = Pin::kFp32;          // kFp32, kFree
  Pin output_layer = Pin::kFree;  // kFp32, kFree; see output_layers.h
  Pin residual_sum = Pin::kFp32;  // kFp32, kFree; in training: sums of the stream between blocks
  CategoryRun allow = CategoryRun::kLow, infer = CategoryRun::kFree, clear = CategoryRun::kFree,
              deny = CategoryRun::kFp32;
  RangeChecks range_check = RangeChecks::kGraph;
  PolicyThresholds thresholds;
  CalibrationThresholds calibration;
  std::vector<PolicyRule> rules;  // the last one that matches a node decides
  // Options of the command line: they go before the rules, pins first.
  std::vector<std::string> pins;      // regular expressions on node names (and result names)
  std::vector<std::string> deny_ops;  // op types
  std::vector<std::string> allow_ops;

  Pin pin(PinKind kind) const;
  CategoryRun run(PrecisionCategory category) const;
  // `rules`, then the options as rules.
  std::vector<PolicyRule> all_rules() const;
  // Name and value of every setting, for reports.
  std::vector<std::pair<std::string, std::string>> describe() const;
};

// "--pin ^head" or "policy.json: rules[2] (ASPP)", the beginning of a cause.
std::string source_of(const PolicyRule& rule);

}  // namespace mezzo::passes
