#include "compiler/ops/norm_rules.h"

#include <string>

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

StatusOr<Gradients> grad_layer_norm(GradientContext& ctx) {
  MEZZO_RETURN_IF_ERROR(only_first_result(ctx));
  const Node& node = ctx.node;
  MEZZO_ASSIGN_OR_RETURN(Value* const mean, require_result(ctx, 1, "mean"));
  MEZZO_ASSIGN_OR_RETURN(Value* const inv_std, require_result(ctx, 2, "inv_std_dev"));
  const std::size_t results = node.operand(2) != nullptr ? 3 : 2;
  const Node* grad =
      ctx.builder.node("LayerNormalizationGrad",
                       {ctx.result_grads[0], node.operand(0), node.operand(1), mean, inv_std},
                       results, {{"axis", node.int_attribute("axis", -1)}}, kMezzoDomain);
  Gradients grads = no_gradients(ctx);
  for (std::size_t i = 0; i < results; ++i) grads[i] = ctx.wanted[i] ? grad->result(i) : nullptr;
  return grads;
}

}  // namespace mezzo
