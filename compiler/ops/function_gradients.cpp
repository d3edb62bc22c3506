// Written so that float32 neither cancels nor overflows where the derivative itself is a plain
// number: 1 - x^2 as (1 - x)(1 + x), (1 + |x|)^2 as two divisions. At kinks the derivative is
// PyTorch's.
#include "compiler/ops/function_gradients.h"

#include "compiler/ops/compose.h"

namespace mezzo {
namespace {

// (1 - x)(1 + x).
Value* one_minus_square(const Compose& c, Value* x) {
  return c.mul(c.add(c.neg(x), 1.0), c.add(x, 1.0));
}

}  // namespace

// tan' = 1 + tan^2.
StatusOr<Gradients> grad_tan(GradientContext& ctx) {
  const Compose c(ctx);
  Value* y = ctx.node.result();
  return Gradients{c.mul(ctx.result_grads[0], c.add(c.mul(y, y), 1.0))};
}

// +-1 / sqrt(1 - x^2).
StatusOr<Gradients> grad_arcus(GradientContext& ctx) {
  const Compose c(ctx);
  Value* slope = c.div(ctx.result_grads[0], c.sqrt(one_minus_square(c, ctx.node.operand(0))));
  return Gradients{ctx.node.is("Acos") ? c.neg(slope) : slope};
}

// 1 / (1 + x^2).
StatusOr<Gradients> grad_atan(GradientContext& ctx) {
  const Compose c(ctx);
  Value* x = ctx.node.operand(0);
  return Gradients{c.div(ctx.result_grads[0], c.add(c.mul(x, x), 1.0))};
}

StatusOr<Gradients> grad_hyperbolic(GradientContext& ctx) {
  const Compose c(ctx);
  const char* slope = ctx.node.is("Sinh") ? "Cosh" : "Sinh";
  return Gradients{c.mul(ctx.result_grads[0], c.op(slope, {ctx.node.operand(0)}))};
}

// 1 / sqrt(x^2 + 1) = 1 / cosh(y): no square that overflows.
StatusOr<Gradients> grad_asinh(GradientContext& ctx) {
  const Compose c(ctx);
  return Gradients{c.div(ctx.result_grads[0], c.op("Cosh", {ctx.node.result()}))};
}

// 1 / sqrt(x^2 - 1) = 1 / sinh(y).
StatusOr<Gradients> grad_acosh(GradientContext& ctx) {
  const Compose c(ctx);
  return Gradients{c.div(ctx.result_grads[0], c.op("Sinh", {ctx.node.result()}))};
}

// 1 / (1 - x^2).
StatusOr<Gradients> grad_atanh(GradientContext& ctx) {
  const Compose c(ctx);
  return Gradients{c.div(ctx.result_grads[0], one_minus_square(c, ctx.node.operand(0)))};
}

// y = x > 0 ? x : slope x, slope broadcast to x.
StatusOr<Gradients> grad_prelu(GradientContext& ctx) {
  const Compose c(ctx);
  Value* x = ctx.node.operand(0);
  Value* slope = ctx.node.operand(1);
  Value* dy = ctx.result_grads[0];
  Value* positive = c.op("Greater", {x, c.number(x, 0.0)});
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) grads[0] = c.where(positive, dy, c.mul(dy, slope));
  if (ctx.wanted[1]) grads[1] = sum_to(ctx, c.zero_where(positive, c.mul(dy, x)), *slope);
  return grads;
}

// y = max(x, 0) + min(alpha (exp(x / alpha) - 1), 0): Elu's of x / alpha with alpha 1, as that
// takes the slope from the operand alone.
StatusOr<Gradients> grad_celu(GradientContext& ctx) {
  const Compose c(ctx);
  Value* x = ctx.node.operand(0);
  const double alpha = ctx.node.float_attribute("alpha", 1.0F);
  return Gradients{
      op_like(ctx, "EluGrad", {ctx.result_grads[0], c.mul(x, 1.0 / alpha)}, {{"alpha", 1.0F}}, *x)};
}

// y = gamma Elu(x).
StatusOr<Gradients> grad_selu(GradientContext& ctx) {
  const Compose c(ctx);
  const float gamma = ctx.node.float_attribute("gamma", 1.0507009873554805F);
  const float alpha = ctx.node.float_attribute("alpha", 1.6732632423543772F);
  return Gradients{op_like(ctx, "EluGrad", {c.mul(ctx.result_grads[0], gamma), ctx.node.operand(0)},
                           {{"alpha", alpha}}, *ctx.node.operand(0))};
}

// y = x t with t = tanh(softplus(x)): y' = t + x (1 - t^2) sigmoid(x).
StatusOr<Gradients> grad_mish(GradientContext& ctx) {
  const Compose c(ctx);
  Value* x = ctx.node.operand(0);
  Value* dy = ctx.result_grads[0];
  Value* t = c.op("Tanh", {c.op("Softplus", {x})});
  Value* inner = op_like(ctx, "TanhGrad", {c.mul(dy, x), t}, {}, *x);
  return Gradients{c.add(c.mul(dy, t), op_like(ctx, "SoftplusGrad", {inner, x}, {}, *x))};
}

// 1 / (1 + |x|)^2.
StatusOr<Gradients> grad_softsign(GradientContext& ctx) {
  const Compose c(ctx);
  Value* divisor = c.add(c.op("Abs", {ctx.node.operand(0)}), 1.0);
  return Gradients{c.div(c.div(ctx.result_grads[0], divisor), divisor)};
}

StatusOr<Gradients> grad_thresholded_relu(GradientContext& ctx) {
  const Compose c(ctx);
  Value* x = ctx.node.operand(0);
  Value* alpha = c.number(x, ctx.node.float_attribute("alpha", 1.0F));
  return Gradients{c.where_or_zero(c.op("Greater", {x, alpha}), ctx.result_grads[0])};
}

// 1 outside of [-lambd, lambd].
StatusOr<Gradients> grad_shrink(GradientContext& ctx) {
  const Compose c(ctx);
  Value* x = ctx.node.operand(0);
  Value* limit = c.number(x, ctx.node.float_attribute("lambd", 0.5F));
  return Gradients{
      c.where_or_zero(c.op("Greater", {c.op("Abs", {x}), limit}), ctx.result_grads[0])};
}

}  // namespace mezzo
