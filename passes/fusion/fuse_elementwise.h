#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// For our runtime: chains and trees of elementwise operators, casts among them, become one node
// FusedElementwise (kernels/element_program.h), which reads every operand once and writes nothing
// between. What lay between is no longer rounded to 16 bits, except where the model itself casts:
// these casts round inside the program as they did. Nodes keep the values that others read, that
// are outputs, or that would have to stay alive longer for the sake of the fusion.
//
// Runs after absorb-casts, and after what gives kernels other than elementwise ones more to do.
// Does nothing unless ctx.for_runtime.
StatusOr<bool> fuse_elementwise(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
