// Private to compiler/ops: gradients of Softmax, LogSoftmax and the cross-entropy loss.
#pragma once

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

StatusOr<Gradients> grad_softmax(GradientContext& ctx);
StatusOr<Gradients> grad_softmax_cross_entropy(GradientContext& ctx);

}  // namespace mezzo
