#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Add(MatMul(x, w), b) with a matrix w and a constant row b becomes Gemm(x, w, b), which adds the
// row as it writes the product; x of higher rank is seen as a matrix through Reshape, which moves
// nothing in our runtime. Only in float32: one rounding is spared, and results are as exact as
// before or more. For running a model.
StatusOr<bool> fuse_bias(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
