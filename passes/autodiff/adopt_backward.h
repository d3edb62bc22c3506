// Takes a graph that holds its own backward pass for what it is: ONNX Runtime's
// training_model.onnx.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Instead of prepare-training and differentiate, for graphs that accumulate gradients themselves
// (compiler/artifacts/accumulators.h); other graphs are left alone. The graph keeps its nodes,
// forward and backward; the frame is exchanged:
//
// - Graph inputs with a default (parameters, running statistics: attach_checkpoint) become plain
//   initializers.
// - The nodes InPlaceAccumulatorV2 go, with their buffers, flags and lazy_reset_grad; what they
//   accumulate becomes the output `gradient/NAME`, but for parameters that --freeze names.
// - The initializer LOSS_grad, 1, becomes the graph input `loss_gradient`.
// - BatchNormInternal becomes BatchNormalizationTrain, its statistics the outputs `state/NAME`.
// - Dropout in training mode is driven by the graph input `random_counter`; its gradient follows.
// - LSTMTraining and GRUTraining become LSTM and GRU, their gradients ours.
// - Sum of gradients becomes AddN.
//
// Sets ctx.training. Every other initializer counts as a constant.
//
// InvalidArgument, naming node and tensor: no loss has a gradient to start from, or more than one
// and none is chosen; a parameter has no value; a gradient is missing or has another shape.
StatusOr<bool> adopt_backward(Model& model, PassContext& ctx);

// What is left of an adopted model for evaluation: without gradients and the new statistics.
void drop_backward(Model& model, const TrainingRoles& roles);

}  // namespace mezzo::passes
