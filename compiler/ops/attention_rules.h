// Private to compiler/ops: ScaledDotProductAttention of ai.mezzo and its gradient.
//
// q[B,H,T,D], k[B,G,S,D], v[B,G,S,E], bias?[broadcast to B,H,T,S] -> y[B,H,T,E], lse[B,H,T]; H is a
// multiple of G, and lse, FP32, is the logarithm of the sum of exponentials of a query's scores.
// Bits of the attribute tokens_first: q (1), k (2), v (4), y (8) lie with heads behind tokens.
#pragma once

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

// Static parts of shapes are checked against each other. InvalidArgument where they do not fit.
Status infer_attention(Node& node);
// dy, q, k, v, bias?, y, lse -> dq, dk, dv, each like its operand.
Status infer_attention_grad(Node& node);

// The bias takes none.
StatusOr<Gradients> grad_attention(GradientContext& ctx);

}  // namespace mezzo
