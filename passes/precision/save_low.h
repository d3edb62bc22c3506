#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// The backward pass reads a low copy of what the forward pass computes in FP32: the cast that is
// there for a contraction, or else a new one, so that the FP32 values live no longer than the
// forward pass needs them. Rounding what only gradients read costs them little: what every later
// layer computes from stays as it was.
//
// For large values all of whose readers in the backward pass take any type: elementwise gradients
// and normalisations. A new cast is made of what must fit the low type's range alone: results of
// normalisations, and what activations, sums, pools and moves make of these. Nodes that a policy, a
// pin of the user's, a range or a calibration keeps in FP32 go on to read FP32.
//
// REQUIRES: ctx.training. Part of narrow-storage; returns whether the graph changed.
bool save_low(Graph& graph, PassContext& ctx);

}  // namespace mezzo::passes
