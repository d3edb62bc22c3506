// What is fixed about a node's precision before any cost is weighed, and why.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ops/op_def.h"
#include "compiler/report/records.h"
#include "compiler/support/text.h"
#include "passes/precision/range.h"
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

class Classifier {
 public:
  // `groups` names the pattern a node belongs to ("LayerNormalization"), see recognise.h.
  static StatusOr<Classifier> create(const Model& model, const PassContext& ctx,
                                     std::unordered_map<const Node*, std::string> groups);

  Classification classify(const Node& node);
  RangeCheck& ranges() { return ranges_; }

 private:
  Classifier(const Model& model, const PassContext& ctx,
             std::unordered_map<const Node*, std::string> groups)
      : model_(model), ctx_(ctx), groups_(std::move(groups)), ranges_(model, ctx.policy.low) {}
  bool fixed_by_user(const Node& node, Classification& out) const;
  bool fixed_by_pin(const Node& node, const OpDef& def, Classification& out) const;
  bool fixed_by_range(const Node& node, Classification& out);
  bool is_residual_sum(const Node& node) const;

  const Model& model_;
  const PassContext& ctx_;
  std::unordered_map<const Node*, std::string> groups_;
  std::vector<Pattern> pins_;
  RangeCheck ranges_;
};

}  // namespace mezzo::passes
