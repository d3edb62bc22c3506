// The backward walk of reverse-mode differentiation over a list of nodes.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "passes/autodiff/activity.h"
#include "passes/pass.h"

namespace mezzo::passes {

class ReverseSweep {
 public:
  // Gradients are asked for values in `active` only. `hint` follows the message where an operator
  // on the way has no gradient. `builder` and `stats` must outlive this.
  ReverseSweep(Builder& builder, ValueSet active, PassStats& stats, std::string_view hint)
      : builder_(builder), active_(std::move(active)), stats_(stats), hint_(hint) {}

  // `gradient` arrives at `value`.
  void add(const Value& value, Value* gradient) { gradients_[&value].push_back(gradient); }

  // Passes the gradients of the node's results on to its operands. Call it for the last node first.
  // Unimplemented: the node has no gradient rule (names node and tensor).
  Status visit(Node& node);

  // The sum of what arrived at `value`; null if nothing did.
  Value* total(const Value& value);

 private:
  StatusOr<std::vector<Value*>> gradients_of(const Node& node, GradientContext& request,
                                             const Value& operand);

  Builder& builder_;
  ValueSet active_;
  PassStats& stats_;
  std::string_view hint_;
  std::unordered_map<const Value*, std::vector<Value*>> gradients_;
};

}  // namespace mezzo::passes
