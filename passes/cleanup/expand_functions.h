// Model-local functions, seen through.
//
// A function of ONNX has no types and may be called with many. `expand-functions` gives every call
// a copy of the body of its own, typed by the operands of the call, with attribute references
// replaced by values. The copy stands in the call as an attribute, so that the passes in between
// treat a call like any node with a graph inside. `share-functions` takes the copies out again:
// what nothing changed goes on calling the function it called, and what was changed becomes a new
// function, one for all calls whose bodies came out equal.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "passes/pass.h"

namespace mezzo::passes {

// Calls visit(Node&) for the nodes of the graph and of all graphs inside it.
template <typename Visit>
void for_each_node(Graph& graph, const Visit& visit) {
  for_each_graph(graph, [&](Graph& inner) {
    for (const auto& node : inner.nodes()) visit(*node);
  });
}

// The name of that attribute.
inline constexpr std::string_view kCallBody = "mezzo.call_body";

// The body that stands in a call; null for other nodes and for calls that were not expanded.
Graph* call_body(const Node& node);

// REQUIRES: calls do not recur, and expand to no more than memory holds, as import checks.
StatusOr<bool> expand_functions(Model& model, PassContext& ctx);

// The body of `function` as `call` means it: a copy without types in which attribute references are
// values.
std::unique_ptr<Graph> body_for(const Node& call, const Function& function);

// Types of expanded bodies go: function bodies have none. Functions that lost all calls go as well.
StatusOr<bool> share_functions(Model& model, PassContext& ctx);

// Puts the bodies of all calls in the calls' place, and drops the functions.
StatusOr<bool> inline_functions(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
