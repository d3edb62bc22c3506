// Spells out operators that the runtime has no kernel for; see the .cpp.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

StatusOr<bool> decompose(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
