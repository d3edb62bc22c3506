#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Computes logarithms of probabilities from the scores themselves. Written out, the probability
// reaches 0 or 1 first (a float32 sigmoid is 1 from 17 on), its logarithm is infinite, and the loss
// or its gradient is NaN, while the loss that the exporter spelled out this way was finite:
//
//   Log(Sigmoid(x))        -> -Softplus(-x)
//   Log(1 - Sigmoid(x))    -> -Softplus(x)
//   Log(Softmax(x))        -> LogSoftmax(x)
//   Log(1 + Exp(x))        -> Softplus(x)
//   1 / (1 + Exp(x))       -> Sigmoid(-x)
//
// also where elements of the probabilities are chosen or moved (GatherElements, Slice, Reshape, ..)
// before the logarithm. Others may read the inner values, which then stay. An epsilon (in a sum, or
// a Clip) makes another function, which stays as it is; so do models whose file declares these
// nodes 16 bits wide. For our runtime: exported files keep their nodes.
StatusOr<bool> stable_logs(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
