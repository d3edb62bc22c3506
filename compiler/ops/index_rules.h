// Private to compiler/ops: gradients and lowering of gathering, scattering and selection.
#pragma once

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

StatusOr<Gradients> grad_gather_elements(GradientContext& ctx);
StatusOr<Gradients> grad_gather_nd(GradientContext& ctx);
StatusOr<Gradients> grad_scatter_elements(GradientContext& ctx);
StatusOr<Gradients> grad_scatter_nd(GradientContext& ctx);
StatusOr<Gradients> grad_top_k(GradientContext& ctx);
StatusOr<Gradients> grad_tensor_scatter(GradientContext& ctx);
StatusOr<Gradients> grad_one_hot(GradientContext& ctx);  // of its two values
StatusOr<Gradients> grad_reverse_sequence(GradientContext& ctx);

Status lower_scatter(const Node& node, LoweredOp& lowered);  // the old name of ScatterElements
Status lower_one_hot(const Node& node, LoweredOp& lowered);
Status lower_top_k(const Node& node, LoweredOp& lowered);
Status lower_eye_like(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
