// Gradients of normalisations without statistics of their own as results. Each y = c / d with a
// divisor d(x) that is 0 only where all of c is: the gradient is 0 there.
#include <string>

#include "compiler/ops/compose.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/lowering_helpers.h"
#include "compiler/ops/norm_rules.h"

namespace mezzo {
namespace {

using Ints = std::vector<std::int64_t>;

// a / b, 0 where b is 0.
Value* ratio_or_zero(const Compose& c, Value* a, Value* b) {
  return c.zero_where(c.equals(b, 0.0), c.div(a, b));
}

// x[N, C, ..] as [N, 1, C, pixels], so that windows over channels are windows of rows.
StatusOr<Ints> channel_rows(const Node& node) {
  const auto dims = static_dims(node.operand(0));
  if (!dims || dims->size() < 2) {
    return unimplemented(describe(node) + ": its gradient needs the dimensions of '" +
                         node.operand(0)->name() + "', which is " +
                         to_string(node.operand(0)->type));
  }
  std::int64_t pixels = 1;
  for (std::size_t i = 2; i < dims->size(); ++i) pixels *= (*dims)[i];
  return Ints{(*dims)[0], 1, (*dims)[1], pixels};
}

}  // namespace

// The scale comes whole: see whole_factor.
StatusOr<Gradients> grad_rms_norm(GradientContext& ctx) {
  const Node& node = ctx.node;
  MEZZO_ASSIGN_OR_RETURN(const NormalisedPart part, normalised_part(ctx));
  const Node* grad = ctx.builder.node(
      "RMSNormalizationGrad",
      {ctx.result_grads[0], node.operand(0), whole_factor(ctx, part, node.operand(1))}, 2,
      {{"axis", part.axis}, {"epsilon", node.float_attribute("epsilon", 1e-5F)}}, kMezzoDomain);
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) grads[0] = grad->result(0);
  if (ctx.wanted[1]) grads[1] = sum_factor(ctx, grad->result(1), *node.operand(1));
  return grads;
}

// y = x / n with n = |x|_p along the axis: dx = (dy - n' sum(dy y)) / n, where n' is y for p = 2
// and sign(x) for p = 1.
StatusOr<Gradients> grad_lp_norm(GradientContext& ctx) {
  const Compose c(ctx);
  const Node& node = ctx.node;
  Value* x = node.operand(0);
  Value* y = node.result();
  Value* dy = ctx.result_grads[0];
  const Ints axis = {node.int_attribute("axis", -1)};
  const bool absolute = node.int_attribute("p", 2) == 1;
  Value* norm = c.op(absolute ? "ReduceL1" : "ReduceL2", {x, ctx.builder.ints(axis)});
  Value* slope = absolute ? c.op("Sign", {x}) : y;
  Value* rest = c.sub(dy, c.mul(slope, c.sum(c.mul(dy, y), axis)));
  return Gradients{ratio_or_zero(c, rest, norm)};
}

// y = c / d with c = x - mean(x), d = s + 1e-9, s = sqrt(mean(c^2)): with g = dy / d,
// dx = g - mean(g) - c mean(g c) / (s d).
StatusOr<Gradients> grad_mean_variance_norm(GradientContext& ctx) {
  const Compose c(ctx);
  const Node& node = ctx.node;
  Ints axes = node.ints_attribute("axes");
  if (!node.has_attribute("axes")) axes = {0, 2, 3};
  Value* x = node.operand(0);
  Value* centred = c.sub(x, c.mean(x, axes));
  // Squares are formed inside of a reduction, which stays FP32.
  Value* sum_square = c.op("ReduceSumSquare", {centred, ctx.builder.ints(axes)});
  const auto dims = static_dims(x);
  if (!dims) {
    return unimplemented(describe(node) + ": its gradient needs the dimensions of '" + x->name() +
                         "', which is " + to_string(x->type));
  }
  double count = 1.0;
  for (const std::int64_t axis : axes) {
    MEZZO_ASSIGN_OR_RETURN(const std::int64_t normal,
                           normalize_axis(node, axis, static_cast<std::int64_t>(dims->size())));
    count *= static_cast<double>((*dims)[static_cast<std::size_t>(normal)]);
  }
  Value* s = c.sqrt(c.mul(sum_square, 1.0 / count));
  Value* d = c.add(s, 1e-9);
  Value* g = c.div(ctx.result_grads[0], d);
  Value* share = ratio_or_zero(c, c.mean(c.mul(g, centred), axes), c.mul(s, d));
  return Gradients{c.sub(c.sub(g, c.mean(g, axes)), c.mul(centred, share))};
}

// y = x b^-beta with b = bias + alpha / size * (sum of x^2 over the window of channels):
// dx = dy b^-beta - 2 alpha beta / size * x * (sum of dy x b^(-beta-1) over the channels whose
// window holds this one). A mean that counts padding, times alpha, is alpha / size times the sum.
StatusOr<Gradients> grad_lrn(GradientContext& ctx) {
  const Compose c(ctx);
  const Node& node = ctx.node;
  const std::int64_t size = node.int_attribute("size", 0);
  if (size < 1) return invalid_argument(describe(node) + ": attribute size must be positive");
  const double alpha = node.float_attribute("alpha", 1e-4F);
  const double beta = node.float_attribute("beta", 0.75F);
  MEZZO_ASSIGN_OR_RETURN(const Ints rows, channel_rows(node));
  const std::int64_t before = (size - 1) / 2, behind = size / 2;
  const auto window_mean = [&](Value* value, std::int64_t first, std::int64_t last) {
    return c.op("AveragePool", {value},
                {{"kernel_shape", Ints{size, 1}},
                 {"pads", Ints{first, 0, last, 0}},
                 {"count_include_pad", std::int64_t{1}}});
  };
  Value* shape = ctx.builder.ints(rows);
  Value* x = c.op("Reshape", {node.operand(0), shape});
  Value* dy = c.op("Reshape", {ctx.result_grads[0], shape});
  Value* base = c.add(c.mul(window_mean(c.mul(x, x), before, behind), alpha),
                      node.float_attribute("bias", 1.0F));
  Value* factor = c.op("Pow", {base, c.number(base, -beta)});
  Value* direct = c.mul(dy, factor);
  Value* spread = window_mean(c.mul(direct, c.div(x, base)), behind, before);
  Value* dx = c.sub(direct, c.mul(c.mul(x, spread), 2.0 * alpha * beta));
  return Gradients{reshape_like(ctx, dx, node.operand(0))};
}

}  // namespace mezzo
