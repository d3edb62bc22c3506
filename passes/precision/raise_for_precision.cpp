#include "passes/precision/raise_for_precision.h"

#include <algorithm>

#include "compiler/onnx/check.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"

namespace mezzo::passes {
namespace {

// The least opset at which every contraction of ONNX's own takes the type.
std::int64_t needed_opset(const Graph& graph, DType low) {
  std::int64_t needed = 0;
  for (const auto& node : graph.nodes()) {
    const OpDef* def = find_op(*node);
    if (def == nullptr || !node->domain().empty() || def->precision != PrecisionCategory::kAllow)
      continue;
    needed = std::max(needed, first_opset_accepting(node->op_type(), "", low));
  }
  return needed;
}

}  // namespace

StatusOr<bool> raise_for_precision(Model& model, PassContext& ctx) {
  if (ctx.policy.force_fp32) return false;
  const std::int64_t needed = needed_opset(*model.graph, ctx.policy.low);
  if (needed <= model.opset()) return false;
  const std::string from = std::to_string(model.opset());
  const Status raised = raise_opset(model, needed);
  if (raised.ok()) {
    ctx.stats.add("opset-raised", 1);
    return true;
  }
  if (raised.code() == StatusCode::kInternal) return raised;
  ctx.records.warnings.push_back("opset " + from + " has no " +
                                 std::string(dtype_name(ctx.policy.low)) +
                                 " for all contractions and could not be raised to " +
                                 std::to_string(needed) + ": " + raised.message());
  return false;
}

}  // namespace mezzo::passes
