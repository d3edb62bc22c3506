// One node run by itself on given operands: in FP32 on their magnitudes, or in a low precision.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/precision/assignment.h"

namespace mezzo::numerics {

struct NodeRunnerOptions {
  const Model* model = nullptr;  // gives the opsets; must outlive the call
  int threads = 1;
};

// The results of `node` for these operands (null: absent). Where `low` is not null, the operands
// and results of its slots are rounded to `dtype`, constants among them stored so; what comes out
// has the types of the original all the same.
// REQUIRES: no graph stands in the node. Errors are those of the interpreter.
StatusOr<std::vector<RuntimeValue>> run_node(const Node& node,
                                             std::span<const RuntimeValue* const> operands,
                                             const NodeRunnerOptions& options,
                                             const passes::LowSlots* low = nullptr,
                                             DType dtype = DType::kFloat16);

}  // namespace mezzo::numerics
