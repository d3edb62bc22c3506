// Removes casts that change nothing.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// A -> B -> C becomes A -> C where B keeps every value of A (float16 -> float -> float16 goes,
// float -> float16 -> float rounds and stays); a cast to the type a value has goes; equal casts of
// one value become one. Dead casts are removed.
StatusOr<bool> fold_casts(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
