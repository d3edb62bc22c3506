// Private to compiler/ops: gradients and lowering of data movement.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

StatusOr<Gradients> grad_transpose(GradientContext& ctx);
StatusOr<Gradients> grad_concat(GradientContext& ctx);
StatusOr<Gradients> grad_split(GradientContext& ctx);
StatusOr<Gradients> grad_slice(GradientContext& ctx);
StatusOr<Gradients> grad_expand(GradientContext& ctx);
StatusOr<Gradients> grad_pad(GradientContext& ctx);  // pad_gradients.cpp
StatusOr<Gradients> grad_trilu(GradientContext& ctx);
StatusOr<Gradients> grad_gather(GradientContext& ctx);

// Pads for every dimension of operand 0: all begins, then all ends.
StatusOr<std::vector<std::int64_t>> full_pads(const Node& node);

Status lower_concat(const Node& node, LoweredOp& lowered);
Status lower_split(const Node& node, LoweredOp& lowered);
Status lower_slice(const Node& node, LoweredOp& lowered);
Status lower_expand(const Node& node, LoweredOp& lowered);
Status lower_pad(const Node& node, LoweredOp& lowered);
Status lower_trilu(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
