// Short forms for building graphs in the tests of this folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace mezzo::testing {

inline Type floats(std::initializer_list<std::int64_t> dims) {
  return TensorType::of(DType::kFloat32, std::vector<std::int64_t>(dims));
}

inline Value* add_op(Graph& graph, std::string_view op, const std::vector<Value*>& operands,
                     const std::string& result, Node* before = nullptr) {
  const std::vector<std::string> names = {result};
  Node* node = graph.add_node(op, "", operands, names, before);
  node->name = "n_" + result;
  return node->result();
}

inline std::vector<std::string> names_of(const std::vector<Value*>& values) {
  std::vector<std::string> names;
  for (const Value* value : values) names.push_back(value ? value->name() : "");
  return names;
}

inline std::vector<std::string> node_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) names.push_back(node->name);
  return names;
}

// A subgraph as attribute `name` of `node`.
inline Graph& add_subgraph(Node* node, const std::string& name) {
  auto graph = std::make_shared<Graph>(name, node);
  node->set_attribute(name, graph);
  return *graph;
}

}  // namespace mezzo::testing
