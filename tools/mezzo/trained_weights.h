// What a training run learnt, put back into the model that it trained.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo::cli {

// Exchanges the initializers of a model, as loaded, for the tensors of the same names in `path`, a
// safetensors file or the folder of a checkpoint, and brings the model into the form for inference.
// Parameters that the file of the model merged are apart again, as training had them. 16-bit
// initializers take FP32 weights rounded. Inputs of these names become initializers (the parameters
// of ONNX Runtime's eval_model.onnx). What keeps its value is told in `warnings`.
//
// InvalidArgument: `path` is no such file, a tensor does not fit, or none has a name of the
// model's.
Status apply_trained_weights(Model& model, const std::string& path,
                             std::vector<std::string>& warnings);

}  // namespace mezzo::cli
