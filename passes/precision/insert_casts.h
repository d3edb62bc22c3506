// Carries an assignment out: changes types and puts a Cast on every boundary.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// REQUIRES: assign-precision ran and the graph has not changed since. A tensor is cast at most once
// per direction, right behind its producer, for all consumers together. Constants are stored in the
// low type instead (twice, if both are used), trained parameters get one Cast from the FP32 master.
// Graph inputs and outputs keep name and, by policy, type. Writes the cast records.
StatusOr<bool> insert_casts(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
