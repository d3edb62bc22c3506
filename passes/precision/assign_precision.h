// Decides which nodes run low.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Labels every node low or FP32, in the main graph, in the graphs of If, Loop and Scan and in the
// bodies of expanded calls: by rule where category, pin, schema or range fix it, the rest by the
// minimum cut (policy.assign kCut) or by painting (kPropagate). Changes no graph; sets
// ctx.assignment and the node records.
StatusOr<bool> assign_precision(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
