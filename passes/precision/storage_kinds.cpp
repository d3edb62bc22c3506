#include "passes/precision/storage_kinds.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

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

bool is_any_of(const Node& node, std::initializer_list<std::string_view> ops) {
  return (node.domain().empty() || node.domain() == kMezzoDomain) &&
         std::find(ops.begin(), ops.end(), node.op_type()) != ops.end();
}

bool keeps_fp32(const NodeDecision& decision) {
  switch (decision.rule) {
    case Rule::kPolicy:
    case Rule::kRange:
    case Rule::kCalibration: return true;
    case Rule::kPin: return decision.cause.find(kKindIsPinned) == std::string::npos;
    case Rule::kPattern: return decision.cause != kResidualSumCause;
    default: return false;
  }
}

}  // namespace

bool is_large_float(const Value& value) {
  if (value.dtype() != DType::kFloat32) return false;
  const auto dims = static_dims(&value);
  if (!dims) return false;
  std::int64_t elems = 1;
  for (const std::int64_t dim : *dims) {
    if (dim == 0) return false;
    if (elems < kLeastElems) elems *= std::min(dim, kLeastElems);
  }
  return elems >= kLeastElems;
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

bool is_gradient_sum(const Node& node) {
  return is_any_of(node, {"AddN", "SumTo", "ConvGradBias"});
}

bool is_elementwise(const Node& node) {
  const OpDef* def = find_op(node);
  return def != nullptr && def->pin == PinKind::kNone && reads_any_type(node) &&
         def->precision == PrecisionCategory::kInfer;
}

bool picks(const Node& node) { return is_one_of(node, {"Relu", "MaxPool", "GlobalMaxPool"}); }

std::unordered_set<std::string> kept_in_fp32(const Records& records) {
  std::unordered_set<std::string> names;
  for (const NodeDecision& decision : records.nodes) {
    if (decision.dtype == DType::kFloat32 && keeps_fp32(decision)) names.insert(decision.node);
  }
  return names;
}

}  // namespace mezzo::passes
