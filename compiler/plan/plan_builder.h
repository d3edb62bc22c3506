// Graph -> plan: lowers every node to a step and every value to a tensor.
//
// 1. Values become tensors with a role: initializers that are trained become masters, a Cast of one
//    its low copy, running statistics states, other initializers constants.
// 2. Nodes become steps through lower(); aliases (Reshape and its kind) share their operand's
// bytes.
// 3. The nodes of training_phases.h belong to the forward phase, all others to the backward phase.
// Offsets stay zero: passes/memory/plan_memory.h places the tensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/training_roles.h"
#include "compiler/plan/plan.pb.h"
#include "compiler/support/status.h"

namespace mezzo {

// A plan whose tensors have no place yet.
struct PlanDraft {
  proto::Plan plan;
  // Per tensor: the tensor whose bytes it shares, or -1. Chains are allowed.
  std::vector<std::int32_t> alias_of;
  // Constant data of tensors not held inline: tensor index -> data.
  std::map<std::int32_t, TensorRef> weights;
};

struct PlanInputs {
  const Model* model = nullptr;             // static shapes, lowered precision
  const TrainingRoles* training = nullptr;  // null for inference
  // The same model in FP32 with inference semantics, sharing initializers by name; null: no
  // evaluate phase.
  const Model* evaluate = nullptr;
  std::string precision = "fp32";
  std::string target = "cpu";  // device_word()
  // Whether the kernels of `op` do without a result that nobody reads
  // (kernels::result_may_be_absent for our runtime); null: they write all, so each gets a buffer.
  bool (*result_may_be_absent)(std::string_view op, int result) = nullptr;
};

// Unimplemented: a node the runtime has no kernel for, or a shape that is not static; the message
// names the node and what could be done.
StatusOr<PlanDraft> build_plan(const PlanInputs& inputs);

}  // namespace mezzo
