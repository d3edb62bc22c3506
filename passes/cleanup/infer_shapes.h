#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Gives symbolic dimensions of graph inputs the sizes in ctx.symbol_values, then infers the type of
// every value. InvalidArgument where operands contradict each other.
StatusOr<bool> infer_shapes(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
