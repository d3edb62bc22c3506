#include "compiler/ops/gradient_helpers.h"

#include <algorithm>
#include <optional>
#include <string>

namespace mezzo {
namespace {

// Dims for Reshape if at most one of them is not a number: that one becomes -1.
std::optional<std::vector<std::int64_t>> reshape_target(const Value& like) {
  if (!like.type.is_tensor() || !like.tensor_type().shape) return std::nullopt;
  std::vector<std::int64_t> dims;
  int open = 0;
  for (const Dim& dim : *like.tensor_type().shape) {
    dims.push_back(dim.known() ? dim.value : -1);
    open += dim.known() ? 0 : 1;
    if (dim.known() && dim.value == 0) return std::nullopt;  // 0 means "copy" to Reshape
  }
  return open <= 1 ? std::optional(dims) : std::nullopt;
}

Value* shape_operand(GradientContext& ctx, Value* like) {
  if (like->type.is_tensor() && like->tensor_type().has_static_shape()) {
    return ctx.builder.ints(like->tensor_type().dims());
  }
  return ctx.builder.op("Shape", {like});
}

void set_shape(Value& value, const Value& like) {
  if (!value.type.is_tensor()) value.type = Type(TensorType());
  if (value.type.tensor.dtype == DType::kNone) value.type.tensor.dtype = like.dtype();
  if (like.type.is_tensor()) value.type.tensor.shape = like.tensor_type().shape;
}

}  // namespace

Gradients no_gradients(const GradientContext& ctx) {
  return Gradients(ctx.node.operand_count(), nullptr);
}

Status only_first_result(const GradientContext& ctx) {
  for (std::size_t i = 1; i < ctx.result_grads.size(); ++i) {
    if (ctx.result_grads[i] != nullptr) {
      return unimplemented(describe(ctx.node) + ": no gradient through result " +
                           std::to_string(i) + " '" + ctx.node.result(i)->name() + "'");
    }
  }
  return ok_status();
}

bool same_shape(const Value& a, const Value& b) {
  if (!a.type.is_tensor() || !b.type.is_tensor()) return false;
  const auto& left = a.tensor_type().shape;
  const auto& right = b.tensor_type().shape;
  if (!left || !right || left->size() != right->size()) return false;
  return std::equal(left->begin(), left->end(), right->begin(), [](const Dim& x, const Dim& y) {
    return x.known() ? x.value == y.value : !y.known() && !x.symbol.empty() && x.symbol == y.symbol;
  });
}

Value* op_like(GradientContext& ctx, std::string_view op_type, std::vector<Value*> operands,
               std::vector<Builder::NamedValue> attributes, const Value& like) {
  Value* result = ctx.builder.mezzo_op(op_type, std::move(operands), std::move(attributes));
  set_shape(*result, like);
  return result;
}

Value* sum_to(GradientContext& ctx, Value* grad, const Value& like) {
  return same_shape(*grad, like) ? grad : op_like(ctx, "SumTo", {grad}, {}, like);
}

Value* reshape_like(GradientContext& ctx, Value* value, Value* like) {
  if (same_shape(*value, *like)) return value;
  const auto target = reshape_target(*like);
  Value* shape = target ? ctx.builder.ints(*target) : shape_operand(ctx, like);
  Value* result = ctx.builder.op("Reshape", {value, shape});
  set_shape(*result, *like);
  return result;
}

Value* expand_like(GradientContext& ctx, Value* value, Value* like) {
  if (same_shape(*value, *like)) return value;
  Value* result = ctx.builder.op("Expand", {value, shape_operand(ctx, like)});
  set_shape(*result, *like);
  return result;
}

Value* scale(GradientContext& ctx, Value* value, double factor) {
  if (factor == 1.0) return value;
  if (factor == -1.0) return ctx.builder.op("Neg", {value});
  return ctx.builder.op("Mul", {value, ctx.builder.scalar(value->dtype(), factor)});
}

std::vector<Builder::NamedValue> forward_attributes(const GradientContext& ctx) {
  std::vector<Builder::NamedValue> attributes;
  for (const Attribute& attribute : ctx.node.attributes()) {
    attributes.emplace_back(attribute.name, attribute.value);
  }
  return attributes;
}

StatusOr<Value*> require_result(GradientContext& ctx, std::size_t index, std::string_view what) {
  Node& node = ctx.node;
  if (Value* result = node.result(index)) return result;
  if (index < node.results().size()) {
    return unimplemented(describe(node) + ": its gradient needs result " + std::to_string(index) +
                         " (" + std::string(what) + "), which the node leaves out");
  }
  Graph& graph = *node.graph();
  const std::string base = node.result(0) ? node.result(0)->name() : node.name;
  while (node.results().size() < index) graph.add_result(&node, "");
  Value* added = graph.add_result(&node, graph.unique_name(base + "_" + std::string(what)));
  MEZZO_RETURN_IF_ERROR(infer_types(node, nullptr));
  return added;
}

StatusOr<Gradients> grad_from_result(GradientContext& ctx) {
  return Gradients{op_like(ctx, ctx.node.op_type() + "Grad",
                           {ctx.result_grads[0], ctx.node.result()}, forward_attributes(ctx),
                           *ctx.node.operand(0))};
}

StatusOr<Gradients> grad_from_operand(GradientContext& ctx) {
  return Gradients{op_like(ctx, ctx.node.op_type() + "Grad",
                           {ctx.result_grads[0], ctx.node.operand(0)}, forward_attributes(ctx),
                           *ctx.node.operand(0))};
}

StatusOr<Gradients> grad_zero(GradientContext& ctx) { return no_gradients(ctx); }

StatusOr<Gradients> grad_reshape(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) grads[0] = reshape_like(ctx, ctx.result_grads[0], ctx.node.operand(0));
  return grads;
}

}  // namespace mezzo
