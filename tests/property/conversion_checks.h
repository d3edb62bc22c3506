// What a conversion may add to a model, seen against the model before: checks over all graphs.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <variant>

#include "compiler/ops/op_def.h"
#include "tests/property/cast_checks.h"

namespace mezzo::test {

// Floating casts: `y = Cast(x)`.
inline bool is_floating_cast(const Node* node) {
  return node != nullptr && node->is("Cast") && node->operand(0) != nullptr &&
         node->result() != nullptr && is_floating(node->operand(0)->dtype()) &&
         is_floating(node->result()->dtype());
}

// Casts down that are cast up again, which rounds for nothing. Models may come with such; a
// conversion adds none.
inline int count_round_trips(const Model& model) {
  int count = 0;
  for_each_graph(*model.graph, [&](const Graph& graph) {
    for (const auto& node : graph.nodes()) {
      if (!is_floating_cast(node.get())) continue;
      const Node* inner = node->operand(0)->producer();
      count += is_floating_cast(inner) && inner->operand(0)->dtype() == node->result()->dtype();
    }
  });
  return count;
}

// A cast of a captured value that a graph around has cast to the same type already.
inline const Node* outer_twin(const Node& cast) {
  const Value* x = cast.operand(0);
  for (const Use& use : x->uses()) {
    if (use.node == &cast || !is_floating_cast(use.node) ||
        use.node->result()->dtype() != cast.result()->dtype())
      continue;
    for (const Graph* graph = cast.graph()->enclosing(); graph; graph = graph->enclosing()) {
      if (use.node->graph() == graph) return use.node;
    }
  }
  return nullptr;
}

inline void expect_no_useless_casts(const Model& before, const Model& after) {
  for_each_graph(*after.graph, [&](const Graph& graph) {
    expect_no_useless_casts(graph);
    for (const auto& node : graph.nodes()) {
      if (!is_floating_cast(node.get())) continue;
      EXPECT_TRUE(node->result()->has_uses()) << describe(*node) << " is read by nobody";
      const Node* twin = outer_twin(*node);
      EXPECT_EQ(twin, nullptr) << describe(*node) << " does again what " << describe(*twin)
                               << " did";
    }
  });
  EXPECT_LE(count_round_trips(after), count_round_trips(before));
}

// The tensor whose data a stored cast or padding is computed from.
inline const Tensor& root(const Tensor& tensor) {
  if (const auto* cast = std::get_if<Tensor::CastOf>(&tensor.storage())) return root(*cast->source);
  if (const auto* pad = std::get_if<Tensor::PadOf>(&tensor.storage())) return root(*pad->source);
  return tensor;
}

// How many initializers hold the data of one tensor in one type.
inline std::map<std::pair<std::uint64_t, DType>, int> count_stored(const Model& model) {
  std::map<std::pair<std::uint64_t, DType>, int> counts;
  for_each_graph(*model.graph, [&](const Graph& graph) {
    for (const Value* value : graph.initializers()) {
      if (const TensorRef& tensor = value->constant())
        ++counts[{root(*tensor).id(), tensor->dtype()}];
    }
  });
  return counts;
}

// A weight that several nodes share is stored once per type, not once per node.
inline void expect_no_weight_twice(const Model& before, const Model& after) {
  std::map<std::uint64_t, int> allowed;
  for (const auto& [key, count] : count_stored(before)) allowed[key.first] += count;
  for (const auto& [key, count] : count_stored(after)) {
    const auto known = allowed.find(key.first);
    if (known == allowed.end()) continue;  // made by a pass
    EXPECT_LE(count, known->second)
        << "a weight is stored " << count << " times as " << dtype_name(key.second);
  }
}

}  // namespace mezzo::test
