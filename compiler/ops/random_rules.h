// Private to compiler/ops: Dropout, ONNX's and the counter-based one of ours, and random numbers.
#pragma once

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

StatusOr<Gradients> grad_dropout(GradientContext& ctx);
StatusOr<Gradients> grad_counted_dropout(GradientContext& ctx);
Status lower_dropout(const Node& node, LoweredOp& lowered);
// RandomNormal, RandomUniform and their Like forms, whose operand gives no more than the type.
Status lower_random(const Node& node, LoweredOp& lowered);
Status lower_draw(const Node& node, LoweredOp& lowered);  // Bernoulli, Multinomial

}  // namespace mezzo
