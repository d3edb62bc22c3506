// Brings old models to an opset at which operators mean what our kernels take them to mean.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Raises ONNX's own operator set to 13 through ONNX's version converter: below it, Softmax and its
// kin flatten around their axis. For graphs that our runtime executes; exported models keep theirs.
// Unimplemented: the converter cannot, and the graph holds an operator that changed its meaning.
StatusOr<bool> raise_to_current(Model& model, PassContext& ctx);

// raise_opset (compiler/onnx/check.h), and says what operators mean whose defaults changed on the
// way and whom the library's converter passes on as they are: Resize and Upsample, RoiAlign, PRelu,
// DFT.
Status raise_with_meaning(Model& model, std::int64_t version);

}  // namespace mezzo::passes
