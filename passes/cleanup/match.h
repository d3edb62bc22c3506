// Small predicates for finding patterns in a graph.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "compiler/ir/graph.h"
#include "compiler/ops/constants.h"

namespace mezzo::passes {

// The producer of `value` if it is that ONNX op; else null.
inline Node* producer_if(const Value* value, std::string_view op) {
  Node* node = value == nullptr ? nullptr : value->producer();
  return node != nullptr && node->is(op) ? node : nullptr;
}

// Is the node one of these ONNX ops?
inline bool is_one_of(const Node& node, std::initializer_list<std::string_view> ops) {
  return std::any_of(ops.begin(), ops.end(), [&](std::string_view op) { return node.is(op); });
}
inline bool is_one_of(const Node* node, std::initializer_list<std::string_view> ops) {
  return node != nullptr && is_one_of(*node, ops);
}

inline bool is_scalar(const Value* value, double expected, double tolerance = 1e-3) {
  const auto actual = constant_scalar(value);
  return actual && std::fabs(*actual - expected) <= tolerance * std::fabs(expected);
}

// Of a commutative node: the operand that is not `known`; null if `known` is none of the two.
inline Value* other_operand(const Node& node, const Value* known) {
  if (node.operand(0) == known) return node.operand(1);
  return node.operand(1) == known ? node.operand(0) : nullptr;
}

// The non-constant operand of a commutative node whose other operand is the scalar `constant`.
Value* operand_beside(const Node& node, double constant, double tolerance = 1e-3);

// Exactly one operand reads `value`, and no graph gives it back.
inline bool has_one_reader(const Value& value) {
  return value.uses().size() == 1 && !value.is_graph_output() && value.inner_outputs().empty();
}

// The one node that uses `value`, if it is that op and nothing else does.
inline Node* only_user(const Value* value, std::string_view op) {
  if (value == nullptr || !has_one_reader(*value)) return nullptr;
  Node* user = value->uses()[0].node;
  return user->is(op) && user->graph() == value->graph() ? user : nullptr;
}

// The axis of a reduction over one axis that keeps dimensions, counted from the end (-1: the last);
// nullopt for any other reduction.
std::optional<std::int64_t> single_axis_from_end(const Node& reduction);

}  // namespace mezzo::passes
