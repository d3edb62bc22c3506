// The part of check_plan() that follows bytes from step to step.
#pragma once

#include "compiler/plan/plan.pb.h"
#include "compiler/support/status.h"
#include "runtime/exec/plan_places.h"

namespace mezzo::runtime {

// Runs through the steps as they will be executed: each reads what is there by then, and writes
// where it may. REQUIRES: every tensor lies within its arena.
Status check_flow(const proto::Plan& plan, const PlanPlaces& places);

}  // namespace mezzo::runtime
