// What no converted graph may hold, and what it must keep.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"

namespace mezzo::test {

// Casts that say nothing, or nothing new: without effect, twice, of a constant, or undoing one that
// lost nothing.
inline void expect_no_useless_casts(const Graph& graph) {
  std::set<std::pair<const Value*, DType>> seen;
  for (const auto& node : graph.nodes()) {
    if (!node->is("Cast") || !is_floating(node->result()->dtype())) continue;
    const Value* x = node->operand(0);
    EXPECT_NE(x->dtype(), node->result()->dtype()) << describe(*node) << " has no effect";
    EXPECT_TRUE(seen.insert({x, node->result()->dtype()}).second)
        << describe(*node) << " is there twice";
    const bool from_constant = x->dtype() != DType::kFloat64 && constant_of(x) != nullptr;
    EXPECT_FALSE(is_floating(x->dtype()) && from_constant)
        << describe(*node) << " casts a constant";
    const Node* inner = x->producer();
    if (inner == nullptr || !inner->is("Cast")) continue;
    const DType origin = inner->operand(0)->dtype();
    EXPECT_FALSE(origin == node->result()->dtype() && keeps_values(origin, x->dtype()))
        << describe(*node) << " undoes a cast that lost nothing";
  }
}

// Normalisation, softmax and loss compute in FP32 (in a model that was FP32 before).
inline void expect_pins_in_fp32(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    const OpDef* def = find_op(*node);
    if (def == nullptr || def->pin == PinKind::kNone || node->is("Gather")) continue;
    for (const Value* operand : node->operands()) {
      EXPECT_FALSE(operand != nullptr && is_low(operand->dtype())) << describe(*node);
    }
    EXPECT_FALSE(node->result() != nullptr && is_low(node->result()->dtype())) << describe(*node);
  }
}

}  // namespace mezzo::test
