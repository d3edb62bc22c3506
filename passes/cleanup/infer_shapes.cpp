#include "passes/cleanup/infer_shapes.h"

#include "compiler/onnx/check.h"
#include "compiler/ops/op_def.h"
#include "passes/precision/rules.h"

namespace mezzo::passes {
namespace {

// Results may carry shapes noted by an exporter for another batch size: forget what has a symbol.
void forget_symbolic_results(Graph& graph) {
  for (const auto& node : graph.nodes()) {
    for (Value* result : node->results()) {
      if (result == nullptr || !result->type.is_tensor() || !result->type.tensor.shape) continue;
      for (Dim& dim : *result->type.tensor.shape) {
        if (!dim.symbol.empty()) dim = Dim();
      }
    }
  }
}

bool bind_inputs(Graph& graph, const std::map<std::string, std::int64_t>& sizes) {
  bool bound = false;
  for (Value* input : graph.inputs()) {
    if (!input->type.is_tensor() || !input->type.tensor.shape) continue;
    for (Dim& dim : *input->type.tensor.shape) {
      const auto size = sizes.find(dim.symbol);
      if (dim.symbol.empty() || size == sizes.end()) continue;
      dim = Dim(size->second);
      bound = true;
    }
  }
  return bound;
}

}  // namespace

StatusOr<bool> infer_shapes(Model& model, PassContext& ctx) {
  const std::uint64_t before = fingerprint(model);
  if (before == ctx.inferred) return false;  // nothing has happened since
  if (!ctx.symbol_values.empty() && bind_inputs(*model.graph, ctx.symbol_values))
    forget_symbolic_results(*model.graph);
  MEZZO_RETURN_IF_ERROR(declare_results(model, ctx.policy).status());
  MEZZO_RETURN_IF_ERROR(infer_types(model));
  // ONNX's own inference looks into subgraphs and local functions as well; what it finds helps
  // conversion, and what it cannot say is no fault.
  if (!ctx.for_runtime) MEZZO_RETURN_IF_ERROR(infer_all_types(model));
  ctx.inferred = fingerprint(model);
  return ctx.inferred != before;
}

}  // namespace mezzo::passes
