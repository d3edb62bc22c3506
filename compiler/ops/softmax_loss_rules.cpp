#include "compiler/ops/softmax_loss_rules.h"

#include "compiler/ir/builder.h"

namespace mezzo {

StatusOr<Gradients> grad_softmax(GradientContext& ctx) {
  return Gradients{op_like(ctx, ctx.node.op_type() + "Grad",
                           {ctx.result_grads[0], ctx.node.result()},
                           {{"axis", ctx.node.int_attribute("axis", -1)}}, *ctx.node.operand(0))};
}

// dscores = (exp(scores - log_sum_exp) - onehot(labels)) dloss weight / normaliser.
StatusOr<Gradients> grad_softmax_cross_entropy_train(GradientContext& ctx) {
  MEZZO_RETURN_IF_ERROR(only_first_result(ctx));
  const Node& node = ctx.node;
  Value* scores = node.operand(0);
  MEZZO_ASSIGN_OR_RETURN(Value* const log_sum_exp, require_result(ctx, 2, "log_sum_exp"));
  Gradients grads = no_gradients(ctx);
  grads[0] = op_like(ctx, "SoftmaxCrossEntropyLossGrad",
                     {ctx.result_grads[0], scores, node.operand(1), node.operand(2), log_sum_exp},
                     forward_attributes(ctx), *scores);
  return grads;
}

// From the forward node's second result where somebody wants it, and what arrives at that one as
// LogSoftmax's. Else from the scores themselves: a number for each position is kept, not one for
// each class.
StatusOr<Gradients> grad_softmax_cross_entropy(GradientContext& ctx) {
  const Node& node = ctx.node;
  Value* scores = node.operand(0);
  const Value* wanted = node.results().size() > 1 ? node.result(1) : nullptr;
  if (wanted == nullptr || (!wanted->has_uses() && !wanted->is_graph_output())) {
    ctx.node.graph()->change_op(&ctx.node, "SoftmaxCrossEntropyLossTrain", kMezzoDomain);
    return grad_softmax_cross_entropy_train(ctx);
  }
  MEZZO_ASSIGN_OR_RETURN(Value* const log_prob, require_result(ctx, 1, "log_prob"));
  Gradients grads = no_gradients(ctx);
  if (ctx.result_grads[0] != nullptr) {
    grads[0] = op_like(ctx, "SoftmaxCrossEntropyLossGrad",
                       {ctx.result_grads[0], log_prob, node.operand(1), node.operand(2)},
                       forward_attributes(ctx), *scores);
  }
  if (ctx.result_grads.size() > 1 && ctx.result_grads[1] != nullptr) {
    Value* through = op_like(ctx, "LogSoftmaxGrad", {ctx.result_grads[1], log_prob},
                             {{"axis", std::int64_t{1}}}, *scores);
    grads[0] = grads[0] == nullptr ? through : ctx.builder.op("Add", {grads[0], through});
  }
  return grads;
}

}  // namespace mezzo
