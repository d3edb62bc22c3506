// Models whose weights are 16-bit become FP32 models, to be trained with FP32 masters.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// In a model whose outputs depend on a FLOAT16 or BFLOAT16 initializer of more than one element,
// every such type becomes FLOAT: weights, inputs and outputs, casts and what else names the type,
// in functions as well. Which nodes then run low the precision passes decide. Notes what it did.
// Other models, also those whose casts and lone constants alone are low, stay as they are.
StatusOr<bool> widen_weights(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
