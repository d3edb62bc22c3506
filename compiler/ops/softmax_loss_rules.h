// Private to compiler/ops: gradients of Softmax, LogSoftmax and the cross-entropy loss.
#pragma once

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

StatusOr<Gradients> grad_softmax(GradientContext& ctx);
StatusOr<Gradients> grad_softmax_cross_entropy(GradientContext& ctx);

// ai.mezzo.SoftmaxCrossEntropyLossTrain.
StatusOr<Gradients> grad_softmax_cross_entropy_train(GradientContext& ctx);

}  // namespace mezzo
