// ONNX's own checker, shape inference and version converter, applied to a Model. None of them
// copies large weights.
#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo {

// ONNX's checker; `full` adds strict type and shape inference. InvalidArgument with its message.
// Large initializers of the main graph are shown to it as graph inputs of the same type, as it does
// not look at their data.
Status check_model(const Model& model, bool full = true);

// Sets Value::type throughout the main graph and the graphs nested in it by ONNX's inference, with
// propagation of shape data. What inference finds replaces a stale type; where it finds a dimension
// unknown and nothing contradicts the old type, the old dimension stays; where it finds nothing
// (ops that ONNX does not know), the old type stays and helps to infer what follows. Types of main
// graph inputs are taken as given. Function bodies have no types.
//
// ONNX copies the list of all values around a subgraph when it enters one. Where that makes more
// than `most_copies`, every graph is inferred by itself in linear time: results of If, Loop and
// Scan and the inputs of their bodies then keep the types they have (infer_types in
// compiler/ops/op_def.h finds them), and shapes that are computed do not reach into subgraphs.
Status infer_all_types(Model& model, std::uint64_t most_copies = 2'000'000);

// The newest version of ONNX's own operator set that this build knows.
std::int64_t newest_opset();

// Brings the main graph to `version` of ONNX's own operator set. Replaces model.graph: pointers to
// its nodes and values become invalid; names stay, as do doc strings, metadata and constants.
// Ops of ONNX's domain that ONNX does not know stay as they are. Unimplemented where ONNX's
// converter cannot (no adapter, sparse initializers, training_info, a model-local function whose
// ops change); the model is then as it was. InvalidArgument to go back.
Status raise_opset(Model& model, std::int64_t version);

}  // namespace mezzo
