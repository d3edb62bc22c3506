// Why every node and cast is as it is. Passes write records when they decide; the report, the
// terminal and the JSON only print them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/support/dtype.h"

namespace mezzo {

enum class Rule : std::uint8_t {
  kCategory,     // the op's category: allow or deny
  kPin,          // embedding, normalisation, softmax, loss, or the user's --pin
  kPolicy,       // --deny-op, --allow-op, a policy file
  kRange,        // a constant beyond the type's range
  kSchema,       // the operator takes no such type at this opset
  kCut,          // the minimum cut chose the cheaper side
  kPattern,      // belongs to a decomposed LayerNorm, Softmax, ...
  kForced,       // --fp32
  kNotFloat,     // nothing to decide: no floating operand or result
  kCalibration,  // values measured on samples
};
inline constexpr int kRuleCount = 10;
// "category", "pin", ..., "not-float": as written to JSON.
std::string_view rule_name(Rule rule);

struct NodeDecision {
  std::string node;  // name, or "producing 'y'"
  std::string
      scope;  // nodes whose graphs it stands in, outermost first: "loop1 > if3 > "; main: ""
  std::string op_type;
  std::string domain;
  DType dtype = DType::kFloat32;  // what it runs in
  Rule rule = Rule::kCategory;
  std::string
      cause;  // "deny: sums in Softmax", "tensor 'mask' holds -1e9", "follows conv1 and conv2"
  double flops = 0;
  std::uint64_t bytes = 0;  // read and written by the node

  bool operator==(const NodeDecision&) const = default;
};

struct CastDecision {
  std::string value;     // the tensor that is cast
  std::string scope;     // as of a node
  std::string producer;  // node, input or initializer it comes from
  std::vector<std::string> consumers;
  DType from = DType::kNone, to = DType::kNone;
  std::uint64_t bytes = 0;  // read and written by the cast; 0 for weights cast ahead of time
  std::string
      cause;  // "'softmax' (deny) needs FP32", "graph output keeps its type", "master weights"
  bool ahead_of_time = false;
  // Set by make_report: a later pass folded it into a chain, joined it with an equal cast, or gave
  // its work to a kernel, so that nothing is cast here at run time.
  bool removed = false;

  bool operator==(const CastDecision&) const = default;
};

struct AssignmentCost {
  std::string method;         // "cut" or "propagate"
  double objective_us = 0;    // predicted microseconds on the target
  double alternative_us = 0;  // what the other method would give
  double all_fp32_us = 0;

  bool operator==(const AssignmentCost&) const = default;
};

// What a policy makes of the model: a row of the comparison of policies.
struct PolicyFigures {
  std::string policy;   // name of the preset or file
  bool chosen = false;  // the one that the records are of
  double flops = 0, low_flops = 0;
  std::uint64_t casts = 0, cast_bytes = 0;  // at run time
  std::uint64_t weight_bytes = 0, activation_bytes = 0;
  double predicted_us = 0;

  bool operator==(const PolicyFigures&) const = default;
};

// A tensor that came near the low type's limits while the FP32 graph ran on samples.
struct MeasuredTensor {
  std::string tensor, scope;
  double lowest = 0, highest = 0;  // of finite elements
  double smallest_nonzero = 0;     // of their magnitudes; 0: all are zero
  std::uint64_t infinities = 0, nans = 0;
  std::string note;  // "reaches 170154 on the samples, beyond float16's 65504"

  bool operator==(const MeasuredTensor&) const = default;
};

// A node that runs otherwise than it would without the samples.
struct CalibrationChange {
  std::string node, scope, op_type;  // as in its decision
  DType before = DType::kNone, after = DType::kNone;

  bool operator==(const CalibrationChange&) const = default;
};

// What running the FP32 graph on samples found, and what followed from it.
struct CalibrationRecord {
  std::vector<std::string> sources;  // files
  std::uint64_t samples = 0;         // runs of the graph
  std::uint64_t tensors = 0;         // measured
  std::vector<MeasuredTensor> near_limit;
  std::vector<CalibrationChange> changes;
  // Of the changes, those that BF16, whose range is that of FP32, would not need.
  std::uint64_t avoided_by_bf16 = 0;
  // Largest error of the converted model's outputs on the samples beside FP32, as a share of the
  // output's largest magnitude; -1: not measured, infinite ones as kInfiniteError.
  double output_error = -1;
  std::uint64_t checked_samples = 0;
  std::string worst_output;
  static constexpr double kInfiniteError = 1e300;

  bool operator==(const CalibrationRecord&) const = default;
};

// All that the report says of one conversion or compilation.
struct Records {
  std::string model, target, precision, tool_version;
  std::vector<std::pair<std::string, std::string>> policy;  // the effective policy, as text
  std::vector<NodeDecision> nodes;
  std::vector<CastDecision> casts;
  std::vector<std::string> warnings;
  std::vector<std::string> pads;  // "conv1: 12 -> 16 output channels", or why not
  AssignmentCost cost;
  std::vector<PolicyFigures> comparison;  // empty where policies were not compared
  std::optional<CalibrationRecord> calibration;
  std::uint64_t weight_bytes_before = 0, weight_bytes_after = 0;
  std::uint64_t activation_bytes_before = 0, activation_bytes_after = 0;
  std::uint64_t planned_peak_bytes = 0, live_bytes = 0;  // 0: no plan was made

  bool operator==(const Records&) const = default;
};

}  // namespace mezzo
