// Moves casts across data movement to where fewer bytes pass.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Clear(x) -> Cast becomes Cast(x) -> Clear where x has fewer elements than the result (Expand,
// Tile, Concat of one, Pad), the moved value has no other users and the op takes the type at this
// opset. Not above what a pin, a rule or a category keeps in FP32, nor where x is a constant. The
// minimum cut has placed casts well already; painting has not.
StatusOr<bool> hoist_casts(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
