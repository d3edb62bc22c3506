// Derives the backward graph: a forward graph with a loss becomes a joint graph.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Adds, behind the forward nodes, nodes that compute the gradient of the loss by every trained
// initializer. The graph gains an input `loss_gradient` (float scalar: what the gradient of the
// loss by itself starts from, that is the loss scale) and one output `gradient/NAME` per trained
// initializer NAME. Sets ctx.training.
//
// Unimplemented: an operator on the way has no gradient rule (names node and tensor).
StatusOr<bool> differentiate(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
