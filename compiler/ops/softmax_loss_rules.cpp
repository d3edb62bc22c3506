#include "compiler/ops/softmax_loss_rules.h"

namespace mezzo {

StatusOr<Gradients> grad_softmax(GradientContext& ctx) {
  return Gradients{op_like(ctx, ctx.node.op_type() + "Grad",
                           {ctx.result_grads[0], ctx.node.result()},
                           {{"axis", ctx.node.int_attribute("axis", -1)}}, *ctx.node.operand(0))};
}

// dscores = (exp(log_prob) - onehot(labels)) dloss weight / normaliser, from the forward node's
// second result.
StatusOr<Gradients> grad_softmax_cross_entropy(GradientContext& ctx) {
  MEZZO_RETURN_IF_ERROR(only_first_result(ctx));
  const Node& node = ctx.node;
  MEZZO_ASSIGN_OR_RETURN(Value* const log_prob, require_result(ctx, 1, "log_prob"));
  Gradients grads = no_gradients(ctx);
  grads[0] = op_like(ctx, "SoftmaxCrossEntropyLossGrad",
                     {ctx.result_grads[0], log_prob, node.operand(1), node.operand(2)},
                     forward_attributes(ctx), *node.operand(0));
  return grads;
}

}  // namespace mezzo
