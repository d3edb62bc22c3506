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

// The name of that attribute.
inline constexpr std::string_view kCallBody = "mezzo.call_body";

// The body that stands in a call; null for other nodes and for calls that were not expanded.
Graph* call_body(const Node& node);

// The function a node calls; null if it calls none.
const Function* called_function(const Model& model, const Node& node);

// Version of an operator set where `graph` stands: functions have their own imports.
std::int64_t opset_at(const Model& model, const Graph& graph, std::string_view domain);

// InvalidArgument where a function calls itself. Models whose calls would expand to more than a
// million nodes are left as they are, with a warning.
StatusOr<bool> expand_functions(Model& model, PassContext& ctx);

// The body of `function` as `call` means it: a copy without types in which attribute references are
// values.
std::unique_ptr<Graph> body_for(const Node& call, const Function& function);

// Types of expanded bodies go: function bodies have none. Functions that lost all calls go as well.
StatusOr<bool> share_functions(Model& model, PassContext& ctx);

// Puts the bodies of all calls in the calls' place, and drops the functions.
StatusOr<bool> inline_functions(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
