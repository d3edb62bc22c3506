#include "compiler/ops/softmax_loss_rules.h"

namespace mezzo {

StatusOr<Gradients> grad_softmax(GradientContext& ctx) {
  return Gradients{op_like(ctx, ctx.node.op_type() + "Grad",
                           {ctx.result_grads[0], ctx.node.result()},
                           {{"axis", ctx.node.int_attribute("axis", -1)}}, *ctx.node.operand(0))};
}

// dscores = (exp(log_prob) - onehot(labels)) dloss weight / normaliser, from the forward node's
// second result; and what arrives at that one, as LogSoftmax's.
StatusOr<Gradients> grad_softmax_cross_entropy(GradientContext& ctx) {
  const Node& node = ctx.node;
  Value* scores = node.operand(0);
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
