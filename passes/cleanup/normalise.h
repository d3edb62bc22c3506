#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Brings a graph on the way to our runtime into one form: Identity and Dropout that drops nothing
// go; CastLike becomes Cast; a Cast, Expand, Reshape, Transpose or Slice that changes nothing goes.
// Meaning is kept exactly.
StatusOr<bool> normalise(Model& model, PassContext& ctx);

// CastLike becomes Cast where the type of its second operand is known; the one node alone.
bool replace_cast_like(Node& node);

}  // namespace mezzo::passes
