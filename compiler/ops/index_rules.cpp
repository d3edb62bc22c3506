#include "compiler/ops/index_rules.h"

#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
// Its own inverse.
StatusOr<Gradients> grad_reverse_sequence(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  grads[0] = ctx.builder.op("ReverseSequence", {ctx.result_grads[0], ctx.node.operand(1)},
                            forward_attributes(ctx));
  return grads;
}

Status lower_scatter(const Node&, LoweredOp& lowered) {
  lowered.kernel = "ScatterElements";
  return ok_status();
}

// The kernel reads the depth from its result.
Status lower_one_hot(const Node& node, LoweredOp& lowered) {
  lowered.operands = {node.operand(0), node.operand(2)};
  return ok_status();
}

// The kernel reads k from its results.
Status lower_top_k(const Node&, LoweredOp& lowered) {
  keep_operands(lowered, 1);
  erase_attribute(lowered, "k");
  return ok_status();
}

// Dims and dtype are the result's.
Status lower_eye_like(const Node& node, LoweredOp& lowered) {
  keep_operands(lowered, 0);
  lowered.attributes.clear();
  set_attribute(lowered, "k", node.int_attribute("k", 0));
  return ok_status();
}

}  // namespace mezzo
