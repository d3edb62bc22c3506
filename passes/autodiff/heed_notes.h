#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// What torch.export's ONNX files leave out of a model, and note beside its nodes: without it they
// train something else than the module did.
//
// - detach, written as Identity, becomes ai.mezzo.StopGradient. Where the exporter's optimiser took
//   the Identity away, a warning says so.
// - The row padding_idx of an embedding gets no gradient.
// - A cross-entropy with label smoothing is smoothed again: ONNX's operator has none. Said in a
//   warning, as the loss is no longer that of the file. Reductions other than the mean stay as they
//   are, with a warning that says so.
// - Initializers that are no parameters of the module, but computed by the exporter's optimiser,
// are
//   not trained, with a warning, unless parameters are missing that they may stand for.
//
// Files without notes stay as they are. REQUIRES: types and shapes are known where they are needed;
// where they are not, a node stays.
StatusOr<bool> heed_notes(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
