#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// MatMul, MatMulT and Gemm read an operand whose last two dimensions a Transpose has exchanged as
// it was before, through a flag: nothing is moved. Used on the way to our runtime: MatMul becomes
// ai.mezzo.MatMulT. The Transpose stays where others read its result. A Transpose of a product's
// result becomes the product of the exchanged operands.
StatusOr<bool> fuse_transposes(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
