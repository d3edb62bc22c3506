// Ties between parameters, and uses of one by all samples, that exporters computed away.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// An output layer tied to the embedding, which exporters part by transposing it ahead of time, is
// tied again, and what torch.export's optimiser expanded over a fixed batch ahead of time (the
// class token of a vision transformer) is one parameter again. Notes tell of both. Returns whether
// the graph changed.
bool restore_ties(Graph& graph, PassContext& ctx);

}  // namespace mezzo::passes
