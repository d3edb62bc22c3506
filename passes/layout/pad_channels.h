// Pads channel and feature sizes to a multiple, for kernels that want aligned sizes.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Weights and biases of Conv, Gemm and MatMul get zero rows and columns up to ctx.padding.multiple;
// padded activations flow on through ops that keep zeros zero (PadRule in the op catalogue) and are
// sliced before the first that does not, and at graph outputs. The padded part of every parameter,
// gradient and optimizer state stays exactly zero in training: all gradients that reach it are
// products with zeros. Names stay; ctx.training->logical_dims holds the shapes of the model.
StatusOr<bool> pad_channels(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
