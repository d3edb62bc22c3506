// Private to compiler/ops: gradients of normalisations.
#pragma once

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

// ONNX's BatchNormalization with fixed statistics. In training form the node becomes
// BatchNormalizationTrain of ours, which also gives the batch's own statistics.
StatusOr<Gradients> grad_batch_norm(GradientContext& ctx);
StatusOr<Gradients> grad_batch_norm_train(GradientContext& ctx);
StatusOr<Gradients> grad_layer_norm(GradientContext& ctx);

}  // namespace mezzo
