#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// BatchNormalization by constant statistics, behind a convolution with constant weights that
// nothing else reads, goes into these weights and the bias:
//
//   w' = w s,  b' = (b - mean) s + bias   with s = scale / sqrt(var + epsilon) per channel
//
// computed in double and rounded once to float32. Only where all of it is float32: with values in
// 16 bits between the two, their declared rounding would be lost. For running a model: its weights
// are no longer the model's.
StatusOr<bool> fold_batch_norm(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
