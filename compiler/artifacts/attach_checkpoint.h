// Joins a training graph of ONNX Runtime with its checkpoint.
#pragma once

#include <string>

#include "compiler/artifacts/ort_checkpoint.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo {

// Graph inputs that the checkpoint names get its tensors as defaults. InvalidArgument, naming
// parameter or node: the shape or type is another one, a parameter whose gradient the graph
// accumulates is missing or frozen in the checkpoint, one that the checkpoint trains has no
// gradient. `checkpoint_name` is how messages call the file.
Status attach_checkpoint(Graph& graph, const OrtCheckpoint& checkpoint,
                         const std::string& checkpoint_name);

}  // namespace mezzo
