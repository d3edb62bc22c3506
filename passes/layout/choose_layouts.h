// Lets activations lie channels last where that spares moving them.
//
// On the CPU convolutions are fastest on channels-last activations and move others there and back
// in every run; on a GPU those of low precision run on Tensor Cores, which read nothing else, and
// take their weights channels last as well. Elementwise operators, pools and their like take
// either, but one for all their operands.
//
// 1. Activations that must have one layout (linked by such operators) form a group. What lies alike
//    in both layouts belongs to none; what has to be row-major (inputs, outputs, parameters,
//    gradients, constants, what is reshaped, what other operators write) stands at the border.
// 2. A group turns channels last if that moves fewer bytes: those that convolutions need not move
//    and those of Transposes that become views, against those of reorders at the group's borders.
// 3. Reorders are put in, one per tensor and direction, forward and backward together; a Transpose
//    from channels last to row-major of the same bytes, or back, becomes an alias. Constant weights
//    are stored in the layout that they are read in.
//
// Runs on a draft without offsets, before plan_memory. Kernels say what they take:
// kernels::layout_use and step_layouts.h.
#pragma once

#include <cstdint>

#include "compiler/plan/device_kind.h"
#include "compiler/plan/plan_builder.h"

namespace mezzo::passes {

struct LayoutStats {
  std::int64_t channels_last = 0;  // activations that changed
  std::int64_t reorders = 0;       // steps added
  std::int64_t views = 0;          // Transposes that became aliases
};

// For the CPU plans of several phases are left as they are.
LayoutStats choose_layouts(PlanDraft& draft, DeviceKind device);

}  // namespace mezzo::passes
