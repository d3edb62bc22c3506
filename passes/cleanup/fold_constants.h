#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Computes nodes whose operands are all constant, and Shape and Size where shapes are static, with
// the reference kernels; the results become initializers. Types that become known on the way are
// inferred. Floating-point initializers of the model are weights, not constants: training may
// change them, so what reads them stays.
StatusOr<bool> fold_constants(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
