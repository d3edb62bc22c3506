#include "compiler/ops/elementwise_rules.h"

#include <string>

#include "compiler/ops/compose.h"

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

// y = a - q b with a whole number q: da = dy, db = -dy q. Rounding takes q out of (a - y) / b,
// whichever way it was rounded in the first place.
StatusOr<Gradients> grad_mod(GradientContext& ctx) {
  const Compose c(ctx);
  Value* a = ctx.node.operand(0);
  Value* b = ctx.node.operand(1);
  Value* dy = ctx.result_grads[0];
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) grads[0] = sum_to(ctx, dy, *a);
  if (ctx.wanted[1]) {
    Value* quotient = c.op("Round", {c.div(c.sub(a, ctx.node.result()), b)});
    grads[1] = c.neg(sum_to(ctx, c.mul(dy, quotient), *b));
  }
  return grads;
}

StatusOr<Gradients> grad_max_min(GradientContext& ctx) {
  const Node& node = ctx.node;
  const Compose c(ctx);
  Gradients grads = no_gradients(ctx);
  if (grads.size() == 1) return Gradients{ctx.result_grads[0]};
  if (grads.size() != 2) {
    return unimplemented(describe(node) +
                         ": its gradient is written for two operands, this one has " +
                         std::to_string(grads.size()));
  }
  Value* a = node.operand(0);
  Value* b = node.operand(1);
  Value* dy = c.where(c.op("Equal", {a, b}), c.mul(ctx.result_grads[0], 0.5), ctx.result_grads[0]);
  const char* loses = node.is("Max") ? "Less" : "Greater";
  if (ctx.wanted[0]) grads[0] = sum_to(ctx, c.zero_where(c.op(loses, {a, b}), dy), *a);
  if (ctx.wanted[1]) grads[1] = sum_to(ctx, c.zero_where(c.op(loses, {b, a}), dy), *b);
  return grads;
}

StatusOr<Gradients> grad_neg(GradientContext& ctx) {
  return Gradients{ctx.builder.op("Neg", {ctx.result_grads[0]})};
}

// Limits that cross leave the upper one everywhere, which then takes the whole gradient.
StatusOr<Gradients> grad_clip(GradientContext& ctx) {
  const Node& node = ctx.node;
  const Compose c(ctx);
  Value* x = node.operand(0);
  Value* low = node.operand(1);
  Value* high = node.operand(2);
  Value* dy = ctx.result_grads[0];
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) grads[0] = op_like(ctx, "ClipGrad", {dy, x, low, high}, {}, *x);
  if (low != nullptr && ctx.wanted[1]) {
    Value* below = c.op("Less", {x, low});
    if (high != nullptr) below = c.op("And", {below, c.op("LessOrEqual", {low, high})});
    grads[1] = sum_to(ctx, c.where_or_zero(below, dy), *low);
  }
  if (high != nullptr && ctx.wanted[2]) {
    Value* above = c.op("Greater", {x, high});
    if (low != nullptr) above = c.op("Or", {above, c.op("Less", {high, low})});
    grads[2] = sum_to(ctx, c.where_or_zero(above, dy), *high);
  }
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
