// How a training graph of ONNX Runtime hands out gradients: node InPlaceAccumulatorV2 adds each to
// a graph input that is its buffer.
#pragma once

#include <string>

#include "compiler/ir/graph.h"

namespace mezzo {

bool is_accumulator(const Node& node);

// Does the graph add up gradients itself, as training_model.onnx does?
bool accumulates_gradients(const Graph& graph);

// "fc.weight" for the accumulation buffer of its gradient, "fc.weight_grad.accumulation.buffer";
// "" for other names.
std::string parameter_of_buffer(const std::string& buffer);

}  // namespace mezzo
