#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Products take over what follows them, where a library's product can do it as it writes its
// result: the bias, ReLU and GELU (its tanh form; what the exact form is given still takes the
// bias), the derivative of GELU on the way back, and the gradient of a bias beside that of the
// weight. For plans that run on a GPU; numbers are rounded less often than before.
//
// REQUIRES: precision is settled. Runs before elementwise operators are fused with each other.
StatusOr<bool> fuse_epilogues(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
