// Gradients of reductions and scans that are composed of other nodes. Where a formula would divide
// by an element that may be 0, products of the other elements are formed instead.
#include <numeric>
#include <string>

#include "compiler/ops/compose.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/lowering_helpers.h"
#include "compiler/ops/reduce_rules.h"

namespace mezzo {
namespace {

using Ints = std::vector<std::int64_t>;

// The product of the other elements along the last axis.
Value* product_of_others(const Compose& c, GradientContext& ctx, Value* x, std::int64_t axis) {
  Value* along = ctx.builder.scalar(DType::kInt64, static_cast<double>(axis));
  const Builder::NamedValue exclusive = {"exclusive", std::int64_t{1}};
  Value* before = c.op("CumProd", {x, along}, {exclusive});
  Value* behind = c.op("CumProd", {x, along}, {exclusive, {"reverse", std::int64_t{1}}});
  return c.mul(before, behind);
}

// x with the reduced axes behind the others and made one: a permutation and a shape.
struct OneAxis {
  Ints perm, inverse;
  Ints shape;  // 0 keeps a dimension, -1 takes the rest
};

OneAxis one_axis(const Node& node, const Ints& axes) {
  const std::vector<Dim>& dims = *node.operand(0)->tensor_type().shape;
  OneAxis form;
  std::vector<bool> reduced(dims.size(), false);
  for (const std::int64_t axis : axes) reduced[static_cast<std::size_t>(axis)] = true;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (reduced[i]) continue;
    form.perm.push_back(static_cast<std::int64_t>(i));
    form.shape.push_back(0);
  }
  form.perm.insert(form.perm.end(), axes.begin(), axes.end());
  form.shape.push_back(-1);
  form.inverse.resize(form.perm.size());
  for (std::size_t i = 0; i < form.perm.size(); ++i) {
    form.inverse[static_cast<std::size_t>(form.perm[i])] = static_cast<std::int64_t>(i);
  }
  return form;
}

}  // namespace

// dx = dy sign(x).
StatusOr<Gradients> grad_reduce_l1(GradientContext& ctx) {
  const Compose c(ctx);
  MEZZO_ASSIGN_OR_RETURN(Value* const dy, keep_dims(ctx, ctx.result_grads[0]));
  Gradients grads = no_gradients(ctx);
  grads[0] = c.mul(c.op("Sign", {ctx.node.operand(0)}), dy);
  return grads;
}

// dx = dy / sum = dy exp(-y).
StatusOr<Gradients> grad_reduce_log_sum(GradientContext& ctx) {
  const Compose c(ctx);
  Value* share = c.mul(ctx.result_grads[0], c.op("Exp", {c.neg(ctx.node.result())}));
  MEZZO_ASSIGN_OR_RETURN(Value* const kept, keep_dims(ctx, share));
  Gradients grads = no_gradients(ctx);
  grads[0] = expand_like(ctx, kept, ctx.node.operand(0));
  return grads;
}

// dx = dy exp(x - y), the softmax. Where every element is -infinity, so is y, and nothing flows.
StatusOr<Gradients> grad_reduce_log_sum_exp(GradientContext& ctx) {
  const Compose c(ctx);
  MEZZO_ASSIGN_OR_RETURN(Value* const y, keep_dims(ctx, ctx.node.result()));
  MEZZO_ASSIGN_OR_RETURN(Value* const dy, keep_dims(ctx, ctx.result_grads[0]));
  Value* finite = c.zero_where(c.op("IsInf", {y}), y);
  Gradients grads = no_gradients(ctx);
  grads[0] = c.mul(c.op("Exp", {c.sub(ctx.node.operand(0), finite)}), dy);
  return grads;
}

// dx = dy times the product of the other elements, also where some are 0.
StatusOr<Gradients> grad_reduce_prod(GradientContext& ctx) {
  const Compose c(ctx);
  Value* x = ctx.node.operand(0);
  MEZZO_ASSIGN_OR_RETURN(const Ints axes, reduced_axes(ctx.node));
  MEZZO_ASSIGN_OR_RETURN(Value* const dy, keep_dims(ctx, ctx.result_grads[0]));
  Gradients grads = no_gradients(ctx);
  if (axes.empty()) {
    grads[0] = dy;
    return grads;
  }
  if (axes.size() == 1) {
    grads[0] = c.mul(product_of_others(c, ctx, x, axes[0]), dy);
    return grads;
  }
  const OneAxis form = one_axis(ctx.node, axes);
  Value* moved = c.op("Transpose", {x}, {{"perm", form.perm}});
  Value* flat = c.op("Reshape", {moved, ctx.builder.ints(form.shape)});
  Value* others = product_of_others(c, ctx, flat, static_cast<std::int64_t>(form.shape.size()) - 1);
  others = c.op("Transpose", {reshape_like(ctx, others, moved)}, {{"perm", form.inverse}});
  grads[0] = c.mul(others, dy);
  return grads;
}

// Every element counts in the sums behind it (or before it): the sum the other way round.
StatusOr<Gradients> grad_cum_sum(GradientContext& ctx) {
  const Node& node = ctx.node;
  Gradients grads = no_gradients(ctx);
  grads[0] = ctx.builder.op("CumSum", {ctx.result_grads[0], node.operand(1)},
                            {{"exclusive", node.int_attribute("exclusive", 0)},
                             {"reverse", std::int64_t{node.int_attribute("reverse", 0) == 0}}});
  return grads;
}

StatusOr<Gradients> grad_cum_prod(GradientContext& ctx) {
  const Node& node = ctx.node;
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t rank, known_rank(node, *node.operand(0)));
  MEZZO_ASSIGN_OR_RETURN(const auto axis, ints_of(node, "axis", 1));
  if (!axis || axis->size() != 1) {
    return invalid_argument(describe(node) + ", operand 1: expected one axis");
  }
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t normal, normalize_axis(node, axis->front(), rank));
  Gradients grads = no_gradients(ctx);
  grads[0] = op_like(ctx, "CumProdGrad", {ctx.result_grads[0], node.operand(0)},
                     {{"axis", normal},
                      {"exclusive", node.int_attribute("exclusive", 0)},
                      {"reverse", node.int_attribute("reverse", 0)}},
                     *node.operand(0));
  return grads;
}

StatusOr<Gradients> grad_det(GradientContext& ctx) {
  return Gradients{op_like(ctx, "DetGrad", {ctx.result_grads[0], ctx.node.operand(0)}, {},
                           *ctx.node.operand(0))};
}

}  // namespace mezzo
