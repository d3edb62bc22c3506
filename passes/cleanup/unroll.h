// Control flow as straight-line code, the only form that a plan holds and that a backward walk
// follows.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Loop and Scan with a known trip count become that many copies of their body, If with a constant
// condition the branch it takes. If with a condition from the data computes both branches and
// selects: their results must have one type. Gradients leave the taken branch alone; only a number
// that a branch uses otherwise than in arithmetic may get 0 times an infinite derivative.
//
// Weights among a body's initializers move to the graph around it and stay one for all copies.
// Trip counts and conditions may be computed from constants, also within the loop.
//
// Unimplemented: the trip count depends on the data; the copies would be more than memory should
// hold (10^5 nodes, 10^5 trips of all loops). InvalidArgument: a body that does not fit its node.
StatusOr<bool> unroll_control_flow(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
