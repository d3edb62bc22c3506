#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Puts one ScaledDotProductAttention of ai.mezzo in the place of the nodes that spell it out
// (attention_pattern.h). Its kernels keep the scores in registers, in FP32: nothing of the size
// queries x keys is written, forward or backward. Differentiated afterwards, it becomes one node
// there, too.
//
// For our runtime: on a GPU in mixed precision, where kernels for it are a library's (FP32 products
// are faster without it), on the CPU for sequences that are long enough to gain.
StatusOr<bool> fuse_attention(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
