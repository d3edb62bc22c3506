#include "compiler/ops/index_rules.h"

#include <string>

#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

// `values` added up at the places of a tensor like `like` that the indices name.
Value* scatter_sum(GradientContext& ctx, std::string_view op, Value* indices, Value* values,
                   const Value& like, std::vector<Builder::NamedValue> attributes) {
  Value* zeros = op_like(ctx, "FillZero", {}, {}, like);
  attributes.emplace_back("reduction", std::string("add"));
  Value* sum = ctx.builder.op(op, {zeros, indices, values}, std::move(attributes));
  sum->type = zeros->type;
  return sum;
}

// dy where nothing was replaced, and what replaced it. With a sum both are the whole.
StatusOr<Gradients> grad_scatter(GradientContext& ctx, std::string_view scatter,
                                 std::string_view gather,
                                 const std::vector<Builder::NamedValue>& attributes) {
  const std::string reduction = ctx.node.string_attribute("reduction", "none");
  if (reduction != "none" && reduction != "add") {
    return unimplemented(describe(ctx.node) + ": no gradient for reduction " + reduction);
  }
  Value* dy = ctx.result_grads[0];
  Value* indices = ctx.node.operand(1);
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0] && reduction == "add") grads[0] = dy;
  if (ctx.wanted[0] && reduction == "none") {
    Value* zeros = op_like(ctx, "FillZero", {}, {}, *ctx.node.operand(2));
    grads[0] = ctx.builder.op(scatter, {dy, indices, zeros}, attributes);
  }
  if (ctx.wanted[2]) grads[2] = ctx.builder.op(gather, {dy, indices}, attributes);
  return grads;
}

std::vector<Builder::NamedValue> axis_attribute(const Node& node, std::int64_t fallback) {
  return {{"axis", node.int_attribute("axis", fallback)}};
}

}  // namespace

StatusOr<Gradients> grad_gather_elements(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  grads[0] = scatter_sum(ctx, "ScatterElements", ctx.node.operand(1), ctx.result_grads[0],
                         *ctx.node.operand(0), axis_attribute(ctx.node, 0));
  return grads;
}

StatusOr<Gradients> grad_gather_nd(GradientContext& ctx) {
  if (ctx.node.int_attribute("batch_dims", 0) != 0) {
    return unimplemented(describe(ctx.node) + ": no gradient with batch_dims");
  }
  Gradients grads = no_gradients(ctx);
  grads[0] = scatter_sum(ctx, "ScatterND", ctx.node.operand(1), ctx.result_grads[0],
                         *ctx.node.operand(0), {});
  return grads;
}

StatusOr<Gradients> grad_scatter_elements(GradientContext& ctx) {
  return grad_scatter(ctx, "ScatterElements", "GatherElements", axis_attribute(ctx.node, 0));
}

StatusOr<Gradients> grad_scatter_nd(GradientContext& ctx) {
  return grad_scatter(ctx, "ScatterND", "GatherND", {});
}

// The chosen elements take their gradients back to where they came from.
StatusOr<Gradients> grad_top_k(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(Value* const indices, require_result(ctx, 1, "indices"));
  Gradients grads = no_gradients(ctx);
  grads[0] = scatter_sum(ctx, "ScatterElements", indices, ctx.result_grads[0], *ctx.node.operand(0),
                         axis_attribute(ctx.node, -1));
  return grads;
}

// Its own inverse.
StatusOr<Gradients> grad_reverse_sequence(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  grads[0] = ctx.builder.op("ReverseSequence", {ctx.result_grads[0], ctx.node.operand(1)},
                            forward_attributes(ctx));
  return grads;
}

Status lower_scatter(const Node&, LoweredOp& lowered) {
  lowered.kernel = "ScatterElements";
  return ok_status();
}

// The kernel reads the depth from its result.
Status lower_one_hot(const Node& node, LoweredOp& lowered) {
  lowered.operands = {node.operand(0), node.operand(2)};
  return ok_status();
}

// The kernel reads k from its results.
Status lower_top_k(const Node&, LoweredOp& lowered) {
  keep_operands(lowered, 1);
  erase_attribute(lowered, "k");
  return ok_status();
}

// Dims and dtype are the result's.
Status lower_eye_like(const Node& node, LoweredOp& lowered) {
  keep_operands(lowered, 0);
  lowered.attributes.clear();
  set_attribute(lowered, "k", node.int_attribute("k", 0));
  return ok_status();
}

}  // namespace mezzo
