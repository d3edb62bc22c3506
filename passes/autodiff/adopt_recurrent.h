// Private to adopt-backward: recurrent layers of ONNX Runtime's training graphs.
#pragma once

#include "compiler/ir/builder.h"
#include "passes/pass.h"

namespace mezzo::passes {

// LSTMTraining and GRUTraining keep their gates for LSTMGrad and GRUGrad. Ours compute gates again:
// they become LSTM and GRU of ONNX, and the gradient nodes what the catalogue's rule gives.
//
// Unimplemented, naming the node: something else than the gradient reads the gates.
Status adopt_recurrent(Graph& graph, Builder& builder, PassContext& ctx);

}  // namespace mezzo::passes
