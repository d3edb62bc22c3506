#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// For our runtime, whose kernels read and write mixed types: a Cast that loses nothing in between
// becomes part of the kernel before or behind it.
//
// 1. A contraction whose low result is only cast to FP32 gives FP32 itself: it has accumulated in
// it.
// 2. An elementwise, normalisation, softmax or loss kernel reads a low operand that was only cast
// to FP32 for it.
// 3. An elementwise or normalisation kernel whose FP32 result is only cast to low writes low
// itself.
//
// Numbers stay the same but for 1, which skips a rounding. Does nothing unless ctx.for_runtime.
StatusOr<bool> absorb_casts(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
