// Deep copies of graphs, nodes and models. Constant data is shared: tensors are immutable.
//
// A mapping takes each original value to its copy. Values that are not in it stand for themselves,
// so that copies within one model go on using what the original used (captures and operands).
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>

#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"

namespace mezzo {

using ValueMapping = std::unordered_map<const Value*, Value*>;

// A copy with the same names that has no parent yet: attach it by set_attribute (or set_parent)
// before anything is named in it. Captures become uses of what `mapping` gives for them, else of
// the captured value itself. Pairs for all values copied are added to `mapping`, if there is one.
std::unique_ptr<Graph> clone(const Graph& graph, ValueMapping* mapping = nullptr);

// A copy of the node in `into`, before `before` (null: at the end), with operands mapped. Results
// and the node keep their names where no value visible from `into` has them, else get unique ones;
// so do the values of subgraphs. Pairs for the results are added to `mapping`.
// REQUIRES: mapped operands and captures are visible from `into` at that place.
Node* clone_node(Graph& into, const Node& node, ValueMapping& mapping, Node* before = nullptr);
// The same at the builder's insertion point; results, and the node after the first of them, are
// named within the builder's scope if it has one. Types are copied, not inferred.
Node* clone_node(Builder& builder, const Node& node, ValueMapping& mapping);

// Copies the nodes of `body` into `into`, before `before`, for inlining: `mapping` must give a
// value of `into` for each input of `body`. Initializers are copied too. Results and initializers
// are named `prefix` + their name, made unique; mapping gives the copies of body's outputs.
void clone_nodes(Graph& into, const Graph& body, std::string_view prefix, ValueMapping& mapping,
                 Node* before = nullptr);

std::unique_ptr<Model> clone_model(const Model& model);

}  // namespace mezzo
