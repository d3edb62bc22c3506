// Topological order of NodeProtos, found before a graph is built from them.
#include <functional>
#include <numeric>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "compiler/onnx/graph_importer.h"
#include "compiler/onnx/proto_types.h"
#include "compiler/support/text.h"

namespace mezzo {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Names = std::unordered_set<std::string_view>;
using Producers = std::unordered_map<std::string_view, int>;

StatusOr<Producers> find_producers(const Nodes& nodes) {
  Producers producers;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const auto& name : nodes[i].output()) {
      if (name.empty()) continue;
      const auto [first, inserted] = producers.emplace(name, i);
      if (!inserted) {
        return invalid_argument(describe_proto(nodes[i]) + ": expected a new name, got '" +
                                printable(name) + "', which is a result of " +
                                describe_proto(nodes[first->second]));
      }
    }
  }
  return producers;
}

template <typename Visit>
void for_each_subgraph(const onnx::NodeProto& node, const Visit& visit) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) visit(attribute.g());
    for (const auto& graph : attribute.graphs()) visit(graph);
  }
}

// Adds the names that a subgraph takes from around it.
void add_captures(const onnx::GraphProto& graph, Names& captures) {
  Names own, used;
  for (const auto& input : graph.input()) own.insert(input.name());
  for (const auto& tensor : graph.initializer()) own.insert(tensor.name());
  for (const auto& sparse : graph.sparse_initializer()) own.insert(sparse.values().name());
  for (const auto& node : graph.node()) {
    own.insert(node.output().begin(), node.output().end());
    used.insert(node.input().begin(), node.input().end());
    for_each_subgraph(node, [&](const onnx::GraphProto& inner) { add_captures(inner, used); });
  }
  for (const auto& output : graph.output()) used.insert(output.name());
  for (const std::string_view name : used) {
    if (!own.contains(name)) captures.insert(name);
  }
}

// For each node, the nodes it needs, each once.
std::vector<std::vector<int>> find_needs(const Nodes& nodes, const Producers& producers) {
  std::vector<std::vector<int>> needs(static_cast<std::size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i) {
    Names names(nodes[i].input().begin(), nodes[i].input().end());
    for_each_subgraph(nodes[i], [&](const onnx::GraphProto& graph) { add_captures(graph, names); });
    std::unordered_set<int> found;
    for (const std::string_view name : names) {
      if (const auto producer = producers.find(name); producer != producers.end()) {
        found.insert(producer->second);
      }
    }
    needs[static_cast<std::size_t>(i)].assign(found.begin(), found.end());
  }
  return needs;
}

bool is_ordered(const std::vector<std::vector<int>>& needs) {
  for (std::size_t i = 0; i < needs.size(); ++i) {
    for (const int needed : needs[i]) {
      if (needed >= static_cast<int>(i)) return false;
    }
  }
  return true;
}

}  // namespace

StatusOr<std::vector<int>> topological_order(const Nodes& nodes) {
  MEZZO_ASSIGN_OR_RETURN(const Producers producers, find_producers(nodes));
  const auto needs = find_needs(nodes, producers);
  std::vector<int> order(needs.size());
  std::iota(order.begin(), order.end(), 0);
  if (is_ordered(needs)) return order;

  std::vector<std::vector<int>> users(needs.size());
  std::vector<std::size_t> missing(needs.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;  // keeps the file's order
  for (std::size_t i = 0; i < needs.size(); ++i) {
    missing[i] = needs[i].size();
    for (const int needed : needs[i])
      users[static_cast<std::size_t>(needed)].push_back(static_cast<int>(i));
    if (missing[i] == 0) ready.push(static_cast<int>(i));
  }
  order.clear();
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const int user : users[static_cast<std::size_t>(node)]) {
      if (--missing[static_cast<std::size_t>(user)] == 0) ready.push(user);
    }
  }
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i] > 0) {
      return invalid_argument(describe_proto(nodes[static_cast<int>(i)]) +
                              ": expected a graph without cycles, but the node needs a value that "
                              "depends on its own result, or on that of a node in a cycle");
    }
  }
  return order;
}

}  // namespace mezzo
