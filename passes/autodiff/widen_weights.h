// Models whose weights are 16-bit become FP32 models, to be trained with FP32 masters.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// In a model with a FLOAT16 or BFLOAT16 initializer, every such type becomes FLOAT: weights, inputs
// and outputs, casts and what else names the type. Which nodes then run low the precision passes
// decide. Notes what it did. Other models, also those whose casts alone are low, stay as they are.
StatusOr<bool> widen_weights(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
