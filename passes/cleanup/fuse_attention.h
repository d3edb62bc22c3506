#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Puts one ScaledDotProductAttention of ai.mezzo in the place of the nodes that spell it out
// (attention_pattern.h). Its kernels keep the scores in registers, in FP32: nothing of the size
// queries x keys is written, forward or backward. Differentiated afterwards, it becomes one node
// there, too.
//
// For our runtime, on a GPU and in mixed precision: there kernels for it are a library's, and FP32
// products without it are faster. Does nothing for other devices or where the policy forces FP32.
StatusOr<bool> fuse_attention(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
