// What is fixed about a node's precision before any cost is weighed, and why.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/ops/op_def.h"
#include "compiler/report/records.h"
#include "passes/cleanup/function_table.h"
#include "passes/precision/calibration.h"
#include "passes/precision/range.h"
#include "passes/precision/rules.h"
#include "passes/precision/slots.h"

namespace mezzo::passes {

enum class Freedom : std::uint8_t { kFree, kFp32, kLow, kNotFloat };

struct Classification {
  Freedom freedom = Freedom::kFree;
  Rule rule = Rule::kCategory;
  std::string cause;
  PrecisionCategory category = PrecisionCategory::kInfer;
  LowSlots slots;
};

// Why a residual sum computes in FP32.
inline constexpr std::string_view kResidualSumCause =
    "residual sum: the stream between blocks stays FP32";

// Ends the cause of a node that a pin of its kind (normalisation, softmax, ...) keeps in FP32.
inline constexpr std::string_view kKindIsPinned = " is pinned to FP32";

// The 16-bit type that the model itself gives to results or operands of the node; kNone if none,
// and for Constant, which computes nothing.
DType low_already(const Node& node);

class Classifier {
 public:
  // `groups` names the pattern a node belongs to ("LayerNormalization"), see recognise.h.
  static StatusOr<Classifier> create(const Model& model, const PassContext& ctx,
                                     std::unordered_map<const Node*, std::string> groups);

  Classification classify(const Node& node);
  // Why samples keep a value in FP32 that passes a border; "" if they do not.
  std::string measured_cause(const Value& value) const;
  RangeCheck& ranges() { return ranges_; }
  const FunctionTable& functions() const { return functions_; }

 private:
  Classifier(const Model& model, const PassContext& ctx,
             std::unordered_map<const Node*, std::string> groups, RuleMatcher rules)
      : model_(model),
        functions_(model),
        ctx_(ctx),
        groups_(std::move(groups)),
        rules_(std::move(rules)),
        ranges_(model, ctx.policy.low,
                {ctx.policy.thresholds.mask, ctx.policy.thresholds.activation,
                 ctx.policy.thresholds.smallest_constant}) {
    if (ctx.calibration) calibration_.emplace(*ctx.calibration, ctx.policy.low, ctx.policy);
  }
  std::string spelled(const Node& node) const;
  // The pin of the pattern that the node is a part of.
  Pin group_pin(const std::string& group) const;
  bool fixed_by_rule(const Node& node, const PolicyRule& rule, Classification& out) const;
  bool fixed_by_pin(const Node& node, const OpDef& def, Classification& out) const;
  bool fixed_by_category(const Node& node, const PolicyRule* rule, Classification& out) const;
  bool fixed_by_range(const Node& node, Classification& out);
  bool fixed_by_calibration(const Node& node, Classification& out) const;
  void follow_category(const Node& node, const PolicyRule* rule, Classification& out) const;
  bool is_residual_sum(const Node& node) const;
  bool keeps_statistics(const Node& node, const Classification& out) const;

  const Model& model_;
  FunctionTable functions_;
  const PassContext& ctx_;
  std::unordered_map<const Node*, std::string> groups_;
  std::unordered_set<const Node*> output_layers_;  // where they are pinned
  RuleMatcher rules_;
  RangeCheck ranges_;
  std::optional<CalibrationCheck> calibration_;
};

}  // namespace mezzo::passes
