#pragma once

#include <vector>

#include "passes/pass.h"

namespace mezzo::passes {

// Computes nodes whose operands are all constant, and Shape and Size where shapes are static, with
// the reference kernels; the results become initializers. Types that become known on the way are
// inferred. Floating-point initializers of the model are weights, not constants: training may
// change them, so what reads them stays.
StatusOr<bool> fold_constants(Model& model, PassContext& ctx);

// The same for some nodes of the main graph, in its order; for a pass that must know at once what
// its new nodes amount to. Folded nodes are gone afterwards, and initializers stand for their
// results.
Status fold_nodes(Model& model, PassContext& ctx, const std::vector<Node*>& nodes);

}  // namespace mezzo::passes
