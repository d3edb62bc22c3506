// Private to compiler/ops: Dropout, ONNX's and the counter-based one of ours.
#pragma once

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

StatusOr<Gradients> grad_dropout(GradientContext& ctx);
StatusOr<Gradients> grad_counted_dropout(GradientContext& ctx);
Status lower_dropout(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
