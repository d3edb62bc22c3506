#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Brings the model to the least opset at which its contractions take the policy's low type
// (bfloat16 came to Conv with opset 22, to MatMul with 13), and at which If, Loop and Scan around
// contractions pass it on (16), through ONNX's version converter. Local functions whose operators
// change on the way are inlined, with a warning. Where the converter cannot convert, the model
// stays, and with it the nodes in FP32: a warning says so.
StatusOr<bool> raise_for_precision(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
