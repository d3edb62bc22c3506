// Nodes for which the runtime has no kernel, as nodes for which it has: how an operator without a
// kernel or gradient of its own is still executed and trained.
#pragma once

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo {

// Replaces `node` by equivalent nodes before it and erases it; false, with nothing changed, if
// neither a decomposition of ours nor an ONNX function body covers this form. New nodes may need
// decomposing in turn. Types of the new values are inferred; `model` gives the opset and may be
// null.
//
// Ours: Max, Min of many operands; Tile, DepthToSpace, SpaceToDepth, ConstantOfShape; Einsum;
// Resize (nearest, linear) of the last two dimensions; InstanceNormalization, GroupNormalization;
// Compress by a constant; NegativeLogLikelihoodLoss after LogSoftmax;
// the operators of com.microsoft that decompose_contrib.cpp and decompose_contrib_training.cpp
// list. Everything else with a function body in ONNX's schema (SwiGLU, Attention, ...): expanded by
// function_body.cpp.
StatusOr<bool> decompose(Node& node, const Model* model);

// True if the operator has no gradient rule, but what `decompose` makes of it has.
bool is_differentiated_decomposed(const Node& node);

// The ONNX function body alone.
StatusOr<bool> expand_function_body(Node& node, const Model* model);

}  // namespace mezzo
