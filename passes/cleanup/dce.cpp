#include "passes/cleanup/dce.h"

namespace mezzo::passes {

StatusOr<bool> dce(Model& model, PassContext& ctx) {
  const std::size_t initializers = model.graph->initializers().size();
  const std::size_t removed = model.graph->remove_dead_nodes(/*unused_initializers_too=*/true);
  ctx.stats.add("dead-nodes-removed", static_cast<std::int64_t>(removed));
  return removed > 0 || model.graph->initializers().size() != initializers;
}

}  // namespace mezzo::passes
