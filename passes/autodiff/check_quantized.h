// Refuses to train parameters from which the loss is cut off by quantization.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Quantized models (QuantizeLinear and its kin before a parameter's effect on the loss) would train
// in silence what lies behind the quantization alone. Changes nothing.
//
// Unimplemented: a floating-point initializer with more than one element, which --freeze does not
// name, reaches the loss only through a node that quantizes (names node, tensor and parameter).
StatusOr<bool> check_quantized(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
