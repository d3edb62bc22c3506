// Private to compiler/ops: gradients and lowering of elementwise ops. Broadcast operands get the
// sum of their gradient over the broadcast dimensions.
#pragma once

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

StatusOr<Gradients> grad_add(GradientContext& ctx);
StatusOr<Gradients> grad_sub(GradientContext& ctx);
StatusOr<Gradients> grad_mul(GradientContext& ctx);
StatusOr<Gradients> grad_div(GradientContext& ctx);
StatusOr<Gradients> grad_pow(GradientContext& ctx);
StatusOr<Gradients> grad_mod(GradientContext& ctx);
// Two equal operands share the gradient, as in PyTorch's maximum. Two operands at most.
StatusOr<Gradients> grad_max_min(GradientContext& ctx);
StatusOr<Gradients> grad_sum(GradientContext& ctx);
StatusOr<Gradients> grad_mean(GradientContext& ctx);
StatusOr<Gradients> grad_neg(GradientContext& ctx);
// On its ends x keeps the gradient, limits take what lies beyond them: PyTorch's clamp.
StatusOr<Gradients> grad_clip(GradientContext& ctx);
StatusOr<Gradients> grad_where(GradientContext& ctx);

Status lower_max_min(const Node& node, LoweredOp& lowered);
Status lower_sum(const Node& node, LoweredOp& lowered);
Status lower_mean(const Node& node, LoweredOp& lowered);
Status lower_clip(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
