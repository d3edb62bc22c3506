#include "compiler/ops/elementwise_rules.h"

#include <string>

namespace mezzo {

StatusOr<Gradients> grad_add(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (ctx.wanted[i]) grads[i] = sum_to(ctx, ctx.result_grads[0], *ctx.node.operand(i));
  }
  return grads;
}

StatusOr<Gradients> grad_sum(GradientContext& ctx) { return grad_add(ctx); }

StatusOr<Gradients> grad_mean(GradientContext& ctx) {
  const double share = 1.0 / static_cast<double>(ctx.node.operand_count());
  Value* dy = scale(ctx, ctx.result_grads[0], share);
  Gradients grads = no_gradients(ctx);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (ctx.wanted[i]) grads[i] = sum_to(ctx, dy, *ctx.node.operand(i));
  }
  return grads;
}

StatusOr<Gradients> grad_sub(GradientContext& ctx) {
  Value* dy = ctx.result_grads[0];
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) grads[0] = sum_to(ctx, dy, *ctx.node.operand(0));
  // The sum first: it may be much smaller.
  if (ctx.wanted[1]) grads[1] = ctx.builder.op("Neg", {sum_to(ctx, dy, *ctx.node.operand(1))});
  return grads;
}

StatusOr<Gradients> grad_mul(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  for (std::size_t i = 0; i < 2; ++i) {
    if (!ctx.wanted[i]) continue;
    Value* product = ctx.builder.op("Mul", {ctx.result_grads[0], ctx.node.operand(1 - i)});
    grads[i] = sum_to(ctx, product, *ctx.node.operand(i));
  }
  return grads;
}

// da = dy / b, db = -dy y / b.
StatusOr<Gradients> grad_div(GradientContext& ctx) {
  Value* a = ctx.node.operand(0);
  Value* b = ctx.node.operand(1);
  Value* quotient = ctx.builder.op("Div", {ctx.result_grads[0], b});
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) grads[0] = sum_to(ctx, quotient, *a);
  if (ctx.wanted[1]) {
    Value* product = ctx.builder.op("Mul", {quotient, ctx.node.result()});
    grads[1] = ctx.builder.op("Neg", {sum_to(ctx, product, *b)});
  }
  return grads;
}

// dx = dy e x^(e-1), de = dy y log(x), which is 0 where x is 0 (its limit for positive e).
StatusOr<Gradients> grad_pow(GradientContext& ctx) {
  Value* x = ctx.node.operand(0);
  Value* exponent = ctx.node.operand(1);
  Value* y = ctx.node.result();
  Value* dy = ctx.result_grads[0];
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) {
    Value* wide = expand_like(ctx, x, y);
    grads[0] = sum_to(ctx, op_like(ctx, "PowGrad", {dy, wide, exponent}, {}, *y), *x);
  }
  if (ctx.wanted[1]) {
    Value* zero = ctx.builder.scalar(x->dtype(), 0.0);
    Value* is_zero = ctx.builder.op("Equal", {x, zero});
    Value* log = ctx.builder.op("Where", {is_zero, zero, ctx.builder.op("Log", {x})});
    Value* product = ctx.builder.op("Mul", {ctx.builder.op("Mul", {dy, y}), log});
    grads[1] = sum_to(ctx, product, *exponent);
  }
  return grads;
}

// Goes to the operand that was chosen, to the first of two equal ones.
StatusOr<Gradients> grad_max_min(GradientContext& ctx) {
  const Node& node = ctx.node;
  Value* dy = ctx.result_grads[0];
  Gradients grads = no_gradients(ctx);
  if (grads.size() == 1) return Gradients{dy};
  if (grads.size() != 2) {
    return unimplemented(describe(node) +
                         ": its gradient is written for two operands, this one has " +
                         std::to_string(grads.size()));
  }
  const char* compare = node.is("Max") ? "GreaterOrEqual" : "LessOrEqual";
  Value* first = ctx.builder.op(compare, {node.operand(0), node.operand(1)});
  Value* zero = ctx.builder.scalar(dy->dtype(), 0.0);
  if (ctx.wanted[0]) {
    grads[0] = sum_to(ctx, ctx.builder.op("Where", {first, dy, zero}), *node.operand(0));
  }
  if (ctx.wanted[1]) {
    grads[1] = sum_to(ctx, ctx.builder.op("Where", {first, zero, dy}), *node.operand(1));
  }
  return grads;
}

StatusOr<Gradients> grad_neg(GradientContext& ctx) {
  return Gradients{ctx.builder.op("Neg", {ctx.result_grads[0]})};
}

StatusOr<Gradients> grad_clip(GradientContext& ctx) {
  const Node& node = ctx.node;
  Gradients grads = no_gradients(ctx);
  grads[0] = op_like(ctx, "ClipGrad",
                     {ctx.result_grads[0], node.operand(0), node.operand(1), node.operand(2)}, {},
                     *node.operand(0));
  return grads;
}

StatusOr<Gradients> grad_where(GradientContext& ctx) {
  const Node& node = ctx.node;
  Value* dy = ctx.result_grads[0];
  Value* zero = ctx.builder.scalar(dy->dtype(), 0.0);
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[1]) {
    grads[1] = sum_to(ctx, ctx.builder.op("Where", {node.operand(0), dy, zero}), *node.operand(1));
  }
  if (ctx.wanted[2]) {
    grads[2] = sum_to(ctx, ctx.builder.op("Where", {node.operand(0), zero, dy}), *node.operand(2));
  }
  return grads;
}

Status lower_max_min(const Node& node, LoweredOp& lowered) {
  if (node.operand_count() == 1) lowered.alias = true;
  if (node.operand_count() <= 2) return ok_status();
  return unimplemented(describe(node) + ": the kernel takes two operands, this one has " +
                       std::to_string(node.operand_count()));
}

// AddN where all shapes are known to be equal, Sum where they broadcast.
Status lower_sum(const Node& node, LoweredOp& lowered) {
  if (node.operand_count() == 1) {
    lowered.alias = true;
    return ok_status();
  }
  lowered.kernel = node.operand_count() == 2 ? "Add" : "AddN";
  for (std::size_t i = 1; i < node.operand_count() && node.operand_count() > 2; ++i) {
    if (!same_shape(*node.operand(0), *node.operand(i))) lowered.kernel = "Sum";
  }
  return ok_status();
}

Status lower_mean(const Node& node, LoweredOp& lowered) {
  lowered.alias = node.operand_count() == 1;
  return ok_status();
}

Status lower_clip(const Node& node, LoweredOp& lowered) {
  if (node.has_attribute("min") || node.has_attribute("max")) {
    return unimplemented(describe(node) + ": limits must be operands (opset 11), not attributes");
  }
  lowered.attributes.clear();
  return ok_status();
}

}  // namespace mezzo
