#include "compiler/ops/random_rules.h"

#include "compiler/ops/constants.h"
#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

// True if an ONNX Dropout hands its operand on unchanged: not in training mode, or ratio 0.
bool is_identity(const Node& node) {
  if (const Value* mode = node.operand(2); mode != nullptr) {
    if (constant_scalar(mode) == 0.0) return true;
  } else {
    return true;  // training_mode defaults to false
  }
  return node.operand(1) != nullptr && constant_scalar(node.operand(1)) == 0.0;
}

Status needs_counter(const Node& node) {
  return unimplemented(describe(node) +
                       ": in training mode it must become the counter-based Dropout of " +
                       std::string(kMezzoDomain) + " first, so that runs can be repeated");
}

}  // namespace

StatusOr<Gradients> grad_dropout(GradientContext& ctx) {
  if (!is_identity(ctx.node)) return needs_counter(ctx.node);
  Gradients grads = no_gradients(ctx);
  grads[0] = ctx.result_grads[0];
  return grads;
}

StatusOr<Gradients> grad_counted_dropout(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(Value* const mask, require_result(ctx, 1, "mask"));
  Gradients grads = no_gradients(ctx);
  grads[0] = op_like(ctx, "DropoutGrad", {ctx.result_grads[0], mask},
                     {{"ratio", ctx.node.float_attribute("ratio", 0.5F)}}, *ctx.node.operand(0));
  return grads;
}

Status lower_dropout(const Node& node, LoweredOp& lowered) {
  if (!is_identity(node)) return needs_counter(node);
  if (node.result(1) != nullptr && node.result(1)->has_uses()) {
    return unimplemented(describe(node) + ": its mask is used, but outside training there is none");
  }
  return lower_alias(node, lowered);
}

}  // namespace mezzo
