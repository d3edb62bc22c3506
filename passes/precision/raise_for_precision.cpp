#include "passes/precision/raise_for_precision.h"

#include <algorithm>

#include "compiler/ir/clone.h"
#include "compiler/onnx/check.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"
#include "passes/cleanup/expand_functions.h"
#include "passes/cleanup/raise_to_current.h"
#include "passes/precision/borders.h"

namespace mezzo::passes {
namespace {

bool is_contraction(const Node& node) {
  const OpDef* def = find_op(node);
  return def != nullptr && node.domain().empty() && def->precision == PrecisionCategory::kAllow;
}

bool contracts_within(const Node& node) {
  bool found = false;
  for (Graph* inner : node.subgraphs()) {
    for_each_graph(*inner, [&](const Graph& graph) {
      for (const auto& nested : graph.nodes()) found = found || is_contraction(*nested);
    });
  }
  return found;
}

// The least opset at which every contraction of ONNX's own takes the type, in the graph, in graphs
// inside it and in functions, and at which If, Loop and Scan around contractions pass it on.
std::int64_t needed_opset(Model& model, DType low) {
  std::int64_t needed = 0;
  const auto note = [&](const Graph& graph) {
    for (const auto& node : graph.nodes()) {
      if (is_contraction(*node))
        needed = std::max(needed, first_opset_accepting(node->op_type(), "", low));
      if (has_borders(*node) && contracts_within(*node))
        needed = std::max(needed, first_opset_giving(node->op_type(), "", low));
    }
  };
  for_each_graph(*model.graph, note);
  for (const auto& function : model.functions) for_each_graph(*function->body, note);
  return needed;
}

// ONNX's converter does not look into functions: where an operator of theirs changes on the way,
// the model is raised with the functions inlined.
StatusOr<bool> raise_inlined(Model& model, PassContext& ctx, std::int64_t opset) {
  const std::unique_ptr<Model> inlined = clone_model(model);
  MEZZO_ASSIGN_OR_RETURN(const bool changed, inline_functions(*inlined, ctx));
  if (!changed) return unimplemented("its functions cannot be inlined");
  MEZZO_RETURN_IF_ERROR(raise_with_meaning(*inlined, opset));
  model.graph = std::move(inlined->graph);
  model.functions = std::move(inlined->functions);
  model.opsets = inlined->opsets;
  ctx.records.warnings.push_back(
      "local functions are inlined: their operators change on the way to opset " +
      std::to_string(opset));
  return true;
}

}  // namespace

StatusOr<bool> raise_for_precision(Model& model, PassContext& ctx) {
  if (ctx.policy.force_fp32) return false;
  const std::int64_t needed = needed_opset(model, ctx.policy.low);
  if (needed <= model.opset()) return false;
  const std::string from = std::to_string(model.opset());
  Status raised = raise_with_meaning(model, needed);
  if (raised.code() == StatusCode::kUnimplemented && !model.functions.empty())
    raised = raise_inlined(model, ctx, needed).status();
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
