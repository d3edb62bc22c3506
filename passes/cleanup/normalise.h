#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Brings a graph on the way to our runtime into one form: Identity and Dropout that drops nothing
// go; SplitToSequence read by constant SequenceAt becomes Split; CastLike becomes Cast; a Cast,
// Expand, Reshape, Transpose or Slice that changes nothing goes. Meaning is kept exactly.
StatusOr<bool> normalise(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
