#include "compiler/ops/norm_rules.h"

#include <string>

#include "compiler/ops/compose.h"
#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

// A [C] vector as [C,1,..], to be broadcast over x[N,C,..].
Value* per_channel(GradientContext& ctx, Value* vector, std::size_t rank) {
  if (rank <= 2) return vector;
  std::vector<std::int64_t> dims(rank - 1, 1);
  dims[0] = -1;
  return ctx.builder.op("Reshape", {vector, ctx.builder.ints(dims)});
}

// The sum of v[N,C,..] over all but C.
Value* sum_per_channel(GradientContext& ctx, Value* v, Value* vector, std::size_t rank) {
  if (rank <= 2) return sum_to(ctx, v, *vector);
  Value* wide = per_channel(ctx, vector, rank);
  return reshape_like(ctx, op_like(ctx, "SumTo", {v}, {}, *wide), vector);
}

// y = scale (x - mean) / sqrt(var + epsilon) + bias with mean and var fixed.
StatusOr<Gradients> grad_fixed_statistics(GradientContext& ctx) {
  const Node& node = ctx.node;
  Builder& builder = ctx.builder;
  Value* x = node.operand(0);
  Value* scale = node.operand(1);
  Value* dy = ctx.result_grads[0];
  if (!x->type.is_tensor() || !x->tensor_type().shape) {
    return unimplemented(describe(node) + ": its gradient needs the rank of '" + x->name() + "'");
  }
  const std::size_t rank = x->tensor_type().shape->size();
  Value* mean = node.operand(3);
  Value* var = node.operand(4);
  Value* epsilon = builder.scalar(var->dtype(), node.float_attribute("epsilon", 1e-5F));
  Value* inv_std =
      builder.op("Reciprocal", {builder.op("Sqrt", {builder.op("Add", {var, epsilon})})});
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) {
    Value* factor = per_channel(ctx, builder.op("Mul", {scale, inv_std}), rank);
    grads[0] = builder.op("Mul", {dy, factor});
  }
  if (ctx.wanted[1]) {
    Value* centred = builder.op("Sub", {x, per_channel(ctx, mean, rank)});
    Value* sum = sum_per_channel(ctx, builder.op("Mul", {dy, centred}), scale, rank);
    grads[1] = builder.op("Mul", {sum, inv_std});
  }
  if (ctx.wanted[2]) grads[2] = sum_per_channel(ctx, dy, node.operand(2), rank);
  return grads;
}

}  // namespace

StatusOr<NormalisedPart> normalised_part(const GradientContext& ctx) {
  const Value& x = *ctx.node.operand(0);
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t rank, known_rank(ctx.node, x));
  NormalisedPart part;
  MEZZO_ASSIGN_OR_RETURN(part.axis,
                         normalize_axis(ctx.node, ctx.node.int_attribute("axis", -1), rank));
  const std::vector<Dim>& dims = *x.tensor_type().shape;
  part.dims.assign(dims.begin() + part.axis, dims.end());
  return part;
}

StatusOr<double> NormalisedPart::count(const Node& node) const {
  double elems = 1.0;
  for (const Dim& dim : dims) {
    if (!dim.known()) {
      return unimplemented(describe(node) + ": its gradient needs the normalised dimensions of '" +
                           node.operand(0)->name() + "', which is " +
                           to_string(node.operand(0)->type));
    }
    elems *= static_cast<double>(dim.value);
  }
  return elems;
}

Value* whole_factor(GradientContext& ctx, const NormalisedPart& part, Value* factor) {
  if (!factor->type.is_tensor() || !factor->tensor_type().has_static_shape()) return factor;
  std::vector<std::int64_t> dims;
  for (const Dim& dim : part.dims) {
    if (!dim.known()) return factor;
    dims.push_back(dim.value);
  }
  if (factor->tensor_type().dims() == dims) return factor;
  return ctx.builder.op("Expand", {factor, ctx.builder.ints(dims)});
}

Value* sum_factor(GradientContext& ctx, Value* grad, const Value& factor) {
  const bool known = factor.type.is_tensor() && factor.tensor_type().has_static_shape();
  return known ? sum_to(ctx, grad, factor) : grad;
}

StatusOr<Gradients> grad_batch_norm_train(GradientContext& ctx) {
  MEZZO_RETURN_IF_ERROR(only_first_result(ctx));
  Value* x = ctx.node.operand(0);
  Value* scale = ctx.node.operand(1);
  MEZZO_ASSIGN_OR_RETURN(Value* const mean, require_result(ctx, 3, "saved_mean"));
  MEZZO_ASSIGN_OR_RETURN(Value* const inv_std, require_result(ctx, 4, "saved_inv_std"));
  const Node* grad =
      ctx.builder.node("BatchNormalizationGrad", {ctx.result_grads[0], x, scale, mean, inv_std}, 3,
                       {}, kMezzoDomain);
  Gradients grads = no_gradients(ctx);
  for (std::size_t i = 0; i < 3; ++i) grads[i] = ctx.wanted[i] ? grad->result(i) : nullptr;
  return grads;
}

StatusOr<Gradients> grad_batch_norm(GradientContext& ctx) {
  MEZZO_RETURN_IF_ERROR(only_first_result(ctx));
  if (ctx.node.int_attribute("training_mode", 0) == 0) return grad_fixed_statistics(ctx);
  ctx.node.erase_attribute("training_mode");
  ctx.node.graph()->change_op(&ctx.node, "BatchNormalizationTrain", kMezzoDomain);
  return grad_batch_norm_train(ctx);
}

namespace {

// What arrives at the statistics m = mean(x) and r = 1 / sqrt(mean((x - m)^2) + epsilon) of N
// elements: dm / N - dr r^3 (x - m) / N, added to `dx` if there is one.
Value* add_statistics(GradientContext& ctx, Value* dx, Value* mean, Value* inv_std, double count) {
  const Compose c(ctx);
  Value* x = ctx.node.operand(0);
  const auto add = [&](Value* part) { dx = dx == nullptr ? part : c.add(dx, part); };
  if (Value* dr = ctx.result_grads.size() > 2 ? ctx.result_grads[2] : nullptr) {
    Value* cube = c.mul(c.mul(inv_std, inv_std), inv_std);
    add(c.mul(c.sub(x, mean), c.mul(c.mul(dr, cube), -1.0 / count)));
  }
  if (Value* dm = ctx.result_grads.size() > 1 ? ctx.result_grads[1] : nullptr) {
    add(expand_like(ctx, c.mul(dm, 1.0 / count), x));
  }
  return dx;
}

bool statistics_take_gradients(const GradientContext& ctx) {
  for (std::size_t i = 1; i < ctx.result_grads.size(); ++i) {
    if (ctx.result_grads[i] != nullptr) return true;
  }
  return false;
}

}  // namespace

StatusOr<Gradients> grad_layer_norm(GradientContext& ctx) {
  const Node& node = ctx.node;
  MEZZO_ASSIGN_OR_RETURN(const NormalisedPart part, normalised_part(ctx));
  MEZZO_ASSIGN_OR_RETURN(Value* const mean, require_result(ctx, 1, "mean"));
  MEZZO_ASSIGN_OR_RETURN(Value* const inv_std, require_result(ctx, 2, "inv_std_dev"));
  Gradients grads = no_gradients(ctx);
  if (ctx.result_grads[0] != nullptr) {
    const std::size_t results = node.operand(2) != nullptr ? 3 : 2;
    const Node* grad = ctx.builder.node("LayerNormalizationGrad",
                                        {ctx.result_grads[0], node.operand(0),
                                         whole_factor(ctx, part, node.operand(1)), mean, inv_std},
                                        results, {{"axis", part.axis}}, kMezzoDomain);
    if (ctx.wanted[0]) grads[0] = grad->result(0);
    for (std::size_t i = 1; i < results; ++i) {
      if (ctx.wanted[i]) grads[i] = sum_factor(ctx, grad->result(i), *node.operand(i));
    }
  }
  if (ctx.wanted[0] && statistics_take_gradients(ctx)) {
    MEZZO_ASSIGN_OR_RETURN(const double count, part.count(node));
    grads[0] = add_statistics(ctx, grads[0], mean, inv_std, count);
  }
  return grads;
}

}  // namespace mezzo
