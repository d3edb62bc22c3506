// What the rules of reach_rules.cpp and reach_sums.cpp share. Private to the analysis.
#pragma once

#include <optional>

#include "compiler/ops/constants.h"
#include "passes/precision/reach.h"

namespace mezzo::passes {

// A node with its operands' reach at hand.
class Operands {
 public:
  Operands(const Node& node, const ReachAnalysis& analysis) : node_(node), analysis_(analysis) {}

  const Node& node() const { return node_; }
  std::size_t count() const { return node_.operand_count(); }
  bool has(std::size_t i) const { return node_.operand(i) != nullptr; }
  const Value& value(std::size_t i) const { return *node_.operand(i); }
  const Reach& operator[](std::size_t i) const { return analysis_.of(value(i)); }
  const ReachAnalysis& analysis() const { return analysis_; }
  std::optional<double> scalar(std::size_t i) const { return constant_scalar(node_.operand(i)); }

 private:
  const Node& node_;
  const ReachAnalysis& analysis_;
};

// Rules for sums, as reach_rules.cpp lists them. All read operand 0, `contraction` operand 1 too.
Reach reduce_sum(const Operands& in);
Reach reduce_sum_square(const Operands& in);
Reach cumulated_sum(const Operands& in);
Reach reduce_l2(const Operands& in);
Reach reduce_l1(const Operands& in);
Reach reduce_prod(const Operands& in);
Reach contraction(const Operands& in);

}  // namespace mezzo::passes
