// Which operands and results of a node become low when the node runs low.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "passes/pass.h"

namespace mezzo::passes {

inline bool is_fp32(const Value* value) {
  return value != nullptr && value->dtype() == DType::kFloat32;
}

struct LowSlots {
  bool possible = false;
  std::string why_not;         // for the report, where not possible
  std::vector<bool> operands;  // true: takes the low type when the node is low
  std::vector<bool> results;
};

// For exported ONNX the operator's schema rules: operands and results that share a type variable
// turn low together, where the schema, the function body that defines the operator (if ONNX gives
// one) and the op catalogue let them. For our runtime the catalogue alone rules.
LowSlots low_slots(const Node& node, const PassContext& ctx, std::int64_t opset);

}  // namespace mezzo::passes
