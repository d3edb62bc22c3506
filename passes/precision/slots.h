// Which operands and results of a node become low when the node runs low.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "passes/pass.h"

namespace mezzo::passes {

struct LowSlots {
  bool possible = false;
  std::string why_not;         // for the report, where not possible
  std::vector<bool> operands;  // true: takes the low type when the node is low
  std::vector<bool> results;
};

// For exported ONNX the operator's schema rules: all operands and results that share the first
// floating operand's type variable turn low together, others where the schema lets them and the op
// catalogue does not want FP32. For our runtime the catalogue alone rules.
LowSlots low_slots(const Node& node, const PassContext& ctx, std::int64_t opset);

}  // namespace mezzo::passes
