// Spells out operators that the runtime has no kernel for; see the .cpp.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

StatusOr<bool> decompose(Model& model, PassContext& ctx);
// Those without gradient rule, for graphs that are trained.
StatusOr<bool> decompose_for_gradient(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
