// Gives a forward graph the loss that the command line asks for.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Adds the loss ctx.loss names, with PyTorch's meaning, as the output `loss`, and graph inputs for
// the targets and the padding mask where the graph has none of these names. Sets loss_output and
// loss_scope. Changes nothing for kNone. The scored outputs stay outputs.
//
//   cross-entropy  F.cross_entropy: integer classes, or probabilities of the output's shape. The
//                  class axis is the one that the target's shape lacks, 1 before the last if both
//                  fit. An output that ends in Softmax or LogSoftmax is scored before it.
//   bce            F.binary_cross_entropy_with_logits; where the output is a Sigmoid, of what the
//                  Sigmoid reads
//   mse, l1        F.mse_loss, F.l1_loss
//   cosine         mean of 1 - F.cosine_similarity(output, target, dim=-1); with two outputs
//                  F.cosine_embedding_loss and a target of 1 and -1
//
// The mean runs over all elements, or over the places that are not ignored, weighted by class
// weights and mask; where nothing is left of these it is NaN, as PyTorch's.
//
// REQUIRES: types are inferred. InvalidArgument: no or several outputs to choose from, shapes and
// types that do not fit (names output and target).
StatusOr<bool> attach_loss(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
