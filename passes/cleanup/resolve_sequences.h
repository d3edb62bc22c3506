// Sequences whose elements are known, seen through.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// What SequenceConstruct, SequenceEmpty, SequenceInsert, SequenceErase and SplitToSequence make of
// known tensors at known positions, and SequenceAt, SequenceLength and ConcatFromSequence read,
// becomes the tensors themselves (Split, Concat). Sequences that others read stay as well.
StatusOr<bool> resolve_sequences(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
