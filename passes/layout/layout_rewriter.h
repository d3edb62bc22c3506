// The second half of choose_layouts: tensors have their layouts, now the steps follow.
#pragma once

#include <functional>

#include "passes/layout/choose_layouts.h"
#include "passes/layout/step_layouts.h"

namespace mezzo::passes {

// Puts reorders where a step takes another layout than its tensor has, one per tensor and direction
// and before the first that needs it, and makes views of Transposes. `keeps`: can all tensors of
// the step lie channels last? Adds to `stats`.
void follow_layouts(PlanDraft& draft, DeviceKind device,
                    const std::function<bool(const proto::Step&)>& keeps, LayoutStats& stats);

}  // namespace mezzo::passes
