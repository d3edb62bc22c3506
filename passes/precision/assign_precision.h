// Decides which nodes run low.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Labels every node of the main graph low or FP32: by rule where category, pin, schema or range fix
// it, the rest by the minimum cut (policy.assign kCut) or by painting (kPropagate). Changes no
// graph; sets ctx.assignment and the node records. Subgraphs and local functions stay FP32.
StatusOr<bool> assign_precision(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
