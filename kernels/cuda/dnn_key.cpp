// Graphs as descriptions; dnn_graph.cpp has what becomes of them.
#include <cstdio>
#include <utility>

#include "kernels/cuda/dnn_graph.h"

namespace mezzo::kernels::cuda::dnn {

int Graph::add(Tensor tensor) {
  tensors.push_back(std::move(tensor));
  return static_cast<int>(tensors.size()) - 1;
}

std::string Graph::key() const {
  std::string text;
  const auto put = [&](const auto& values) {
    for (const auto value : values) text += std::to_string(value) + ",";
    text += ';';
  };
  for (const Tensor& tensor : tensors) {
    text += std::to_string(static_cast<int>(tensor.dtype)) + (tensor.internal ? "i:" : ":");
    put(tensor.dims);
    put(tensor.strides);
  }
  for (const Node& node : nodes) {
    text += "|" + std::to_string(static_cast<int>(node.op)) + (node.causal ? "c" : "");
    put(node.operands);
    put(node.results);
    for (const Dims* dims : {&node.pads_begin, &node.pads_end, &node.strides, &node.dilations}) {
      put(*dims);
    }
    char scalar[32];
    std::snprintf(scalar, sizeof scalar, "%a", node.scalar);
    text += scalar;
  }
  return exact_in_tf32 ? text + "e" : text;
}

}  // namespace mezzo::kernels::cuda::dnn
