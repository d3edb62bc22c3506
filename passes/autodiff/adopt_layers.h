// Private to adopt-backward: normalisation and dropout of ONNX Runtime's training graphs.
#pragma once

#include "compiler/ir/builder.h"
#include "passes/pass.h"

namespace mezzo::passes {

// Brings them into the form that the trainer drives: statistics as outputs `state/NAME`, random
// numbers by the graph input `random_counter`, both noted in ctx.training.
//
// Unimplemented, naming the node: a training mode or ratio that depends on the run, a dropout mask
// that something else than a gradient reads.
Status adopt_layers(Graph& graph, Builder& builder, PassContext& ctx);

}  // namespace mezzo::passes
