#include "passes/cleanup/infer_shapes.h"

#include "compiler/onnx/check.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"
#include "passes/cleanup/function_table.h"
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

// The floating type that other operands of the same type variable have; kNone if there is none.
DType type_beside(const Node& node, std::size_t unknown, std::int64_t opset) {
  const std::string_view variable = operand_type_variable(node, unknown, opset);
  if (variable.empty()) return DType::kNone;
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    const Value* value = node.operand(i);
    if (value != nullptr && is_floating(value->dtype()) &&
        operand_type_variable(node, i, opset) == variable)
      return value->dtype();
  }
  return DType::kNone;
}

// Operators that nothing describes give values of unknown type. Where a reader must have them in
// the type of another operand, that is their type; their shape stays unknown.
bool infer_from_readers(Model& model) {
  const FunctionTable functions(model);
  bool found = false;
  for_each_graph(*model.graph, [&](Graph& graph) {
    for (const auto& node : graph.nodes()) {
      for (std::size_t i = 0; i < node->operand_count(); ++i) {
        Value* value = node->operand(i);
        if (value == nullptr || value->producer() == nullptr ||
            value->type.kind != Type::Kind::kUnknown)
          continue;
        const DType dtype = type_beside(*node, i, functions.opset(graph, node->domain()));
        if (dtype == DType::kNone) continue;
        value->type = TensorType(dtype, {});
        value->type.tensor.shape.reset();
        found = true;
      }
    }
  });
  return found;
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
  if (!ctx.for_runtime) {
    MEZZO_RETURN_IF_ERROR(infer_all_types(model));
    if (infer_from_readers(model)) MEZZO_RETURN_IF_ERROR(infer_all_types(model));
  }
  ctx.inferred = fingerprint(model);
  return ctx.inferred != before;
}

}  // namespace mezzo::passes
