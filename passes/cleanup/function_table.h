// The model-local functions of a model, found by the calls that name them.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>

#include "compiler/ir/graph.h"

namespace mezzo::passes {

// Holds pointers and names of the model: make it anew after functions are added or dropped.
class FunctionTable {
 public:
  explicit FunctionTable(const Model& model);

  // The function that a node calls; null if it calls none.
  const Function* find(const Node& node) const;

  // Version of an operator set where `graph` stands: the body in a call (expand_functions.h) has
  // the imports of its function.
  std::int64_t opset(const Graph& graph, std::string_view domain) const;

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;

  const Model& model_;
  std::map<Key, const Function*> functions_;  // by domain, name and overload
};

}  // namespace mezzo::passes
