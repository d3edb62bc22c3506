#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Removes nodes and initializers that no graph output needs.
StatusOr<bool> dce(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
