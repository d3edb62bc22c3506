#include "compiler/ops/reduce_rules.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/ops/compose.h"
#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

bool is_global_pool(const Node& node) { return node.is("GlobalMaxPool"); }

// x's dims with ones where the node reduces: what its result looks like with keepdims.
StatusOr<std::vector<Dim>> kept_dims(const Node& node) {
  MEZZO_ASSIGN_OR_RETURN(const auto axes, reduced_axes(node));
  std::vector<Dim> dims = *node.operand(0)->tensor_type().shape;
  for (const std::int64_t axis : axes) dims[axis] = Dim(1);
  return dims;
}

// dy as if keepdims were 1, times x or another operand-shaped factor: broadcasting does the rest.
StatusOr<Value*> times_operand(GradientContext& ctx, Value* grad) {
  MEZZO_ASSIGN_OR_RETURN(Value* const kept, keep_dims(ctx, grad));
  return ctx.builder.op("Mul", {ctx.node.operand(0), kept});
}

}  // namespace

StatusOr<Value*> keep_dims(GradientContext& ctx, Value* value) {
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Dim> dims, kept_dims(ctx.node));
  if (value->type.is_tensor() && value->tensor_type().rank() == dims.size()) return value;
  std::vector<std::int64_t> target;
  for (const Dim& dim : dims) target.push_back(dim.known() ? dim.value : -1);
  Value* result = ctx.builder.op("Reshape", {value, ctx.builder.ints(target)});
  if (result->type.is_tensor()) result->type.tensor.shape = dims;
  return result;
}

StatusOr<std::vector<std::int64_t>> reduced_axes(const Node& node) {
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t rank, known_rank(node, *node.operand(0)));
  std::vector<std::int64_t> all(rank);
  std::iota(all.begin(), all.end(), 0);
  if (is_global_pool(node)) {
    return std::vector<std::int64_t>(all.begin() + std::min<std::int64_t>(2, rank), all.end());
  }
  MEZZO_ASSIGN_OR_RETURN(const auto given, ints_of(node, "axes", 1));
  if (!given || given->empty()) {
    return node.int_attribute("noop_with_empty_axes", 0) != 0 ? std::vector<std::int64_t>() : all;
  }
  std::set<std::int64_t> axes;
  for (const std::int64_t axis : *given) {
    MEZZO_ASSIGN_OR_RETURN(const std::int64_t normal, normalize_axis(node, axis, rank));
    axes.insert(normal);
  }
  return std::vector<std::int64_t>(axes.begin(), axes.end());
}

StatusOr<Gradients> grad_reduce_sum(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(Value* const dy, keep_dims(ctx, ctx.result_grads[0]));
  Gradients grads = no_gradients(ctx);
  grads[0] = expand_like(ctx, dy, ctx.node.operand(0));
  return grads;
}

StatusOr<Gradients> grad_reduce_mean(GradientContext& ctx) {
  Value* x = ctx.node.operand(0);
  MEZZO_ASSIGN_OR_RETURN(const auto axes, reduced_axes(ctx.node));
  double count = 1.0;
  for (const std::int64_t axis : axes) {
    const Dim& dim = (*x->tensor_type().shape)[axis];
    if (!dim.known()) {
      return unimplemented(describe(ctx.node) + ": its gradient needs the reduced dimensions of '" +
                           x->name() + "', which is " + to_string(x->type));
    }
    count *= static_cast<double>(dim.value);
  }
  MEZZO_ASSIGN_OR_RETURN(Value* const dy, keep_dims(ctx, ctx.result_grads[0]));
  Gradients grads = no_gradients(ctx);
  grads[0] = expand_like(ctx, scale(ctx, dy, 1.0 / count), x);
  return grads;
}

// dx = 2 x dy.
StatusOr<Gradients> grad_reduce_sum_square(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  MEZZO_ASSIGN_OR_RETURN(grads[0], times_operand(ctx, scale(ctx, ctx.result_grads[0], 2.0)));
  return grads;
}

// dx = x dy / y.
StatusOr<Gradients> grad_reduce_l2(GradientContext& ctx) {
  const Compose c(ctx);
  Value* y = ctx.node.result();
  Value* ratio = c.zero_where(c.equals(y, 0.0), c.div(ctx.result_grads[0], y));
  Gradients grads = no_gradients(ctx);
  MEZZO_ASSIGN_OR_RETURN(grads[0], times_operand(ctx, ratio));
  return grads;
}

StatusOr<Gradients> grad_reduce_extreme(GradientContext& ctx) {
  Value* x = ctx.node.operand(0);
  MEZZO_ASSIGN_OR_RETURN(Value* const y, keep_dims(ctx, ctx.node.result()));
  MEZZO_ASSIGN_OR_RETURN(Value* const dy, keep_dims(ctx, ctx.result_grads[0]));
  Value* is_extreme = ctx.builder.op("Equal", {x, y});
  Value* mask =
      ctx.builder.op("Cast", {is_extreme}, {{"to", static_cast<std::int64_t>(x->dtype())}});
  Value* share = ctx.builder.op("Div", {dy, sum_to(ctx, mask, *y)});
  Gradients grads = no_gradients(ctx);
  grads[0] = ctx.builder.op("Mul", {mask, share});
  return grads;
}

Status lower_reduce(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const auto axes, reduced_axes(node));
  keep_operands(lowered, 1);
  const bool noop = axes.empty() && node.int_attribute("noop_with_empty_axes", 0) != 0;
  // The others still square, or take the magnitude or a logarithm of, every element.
  const bool keeps = node.is("ReduceSum") || node.is("ReduceMean") || node.is("ReduceMax") ||
                     node.is("ReduceMin") || node.is("ReduceProd");
  if (noop && keeps) {
    lowered.alias = true;
    lowered.attributes.clear();
    return ok_status();
  }
  if (!noop) erase_attribute(lowered, "noop_with_empty_axes");
  set_attribute(lowered, "axes", axes);
  return ok_status();
}

Status lower_scan(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t rank, known_rank(node, *node.operand(0)));
  MEZZO_ASSIGN_OR_RETURN(const auto axis, ints_of(node, "axis", 1));
  if (!axis || axis->size() != 1) {
    return invalid_argument(describe(node) + ", operand 1: expected one axis");
  }
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t normal, normalize_axis(node, axis->front(), rank));
  keep_operands(lowered, 1);
  set_attribute(lowered, "axis", normal);
  return ok_status();
}

Status lower_global_max_pool(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const auto axes, reduced_axes(node));
  lowered.kernel = "ReduceMax";
  set_attribute(lowered, "axes", axes);
  set_attribute(lowered, "keepdims", std::int64_t{1});
  return ok_status();
}

}  // namespace mezzo
