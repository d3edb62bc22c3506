// Places the tensors of a plan: one arena per kind of role, offsets decided ahead of time.
#pragma once

#include "compiler/plan/plan_builder.h"
#include "compiler/support/status.h"

namespace mezzo::passes {

struct MemoryOptions {
  bool reuse = true;  // false: every activation has bytes of its own, for looking at a run
  bool in_place = true;
};

// Fills arenas, Tensor::arena and Tensor::offset of the draft's plan.
Status plan_memory(PlanDraft& draft, const MemoryOptions& options = {});

}  // namespace mezzo::passes
