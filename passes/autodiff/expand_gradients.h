// Spells out the operator Gradient of ai.onnx.preview.training; see the .cpp.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Unimplemented: an operator on the way has no gradient rule. InvalidArgument: the node names
// values that are not there.
StatusOr<bool> expand_gradients(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
