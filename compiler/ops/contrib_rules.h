// Private to compiler/ops: type rules and lowering of the domain com.microsoft. Meanings follow
// ONNX Runtime's operator documentation (docs/ContribOperators.md).
#pragma once

#include "compiler/ops/mezzo_rules.h"

namespace mezzo {

// Element types by the operator's signature (contrib_types.h); dims stay unknown.
Status infer_contrib(Node& node);
Status infer_contrib_like_first(Node& node);  // and dims of result 0 are those of operand 0
Status infer_fused_matmul(Node& node);
Status infer_fused_gemm(Node& node);
Status infer_skip_norm(Node& node);             // results 0 and 3 like operand 0
Status infer_skip_group_norm(Node& node);       // results 0 and 1
Status infer_halved(Node& node);                // last dim halved: BiasSplitGelu
Status infer_matmul_n_bits(Node& node);         // last dim is attribute N
Status infer_contrib_attention(Node& node);     // [B, S, width of the values]
Status infer_multi_head_attention(Node& node);  // packed and unpacked forms
Status infer_grouped_attention(Node& node);
Status infer_embed_layer_norm(Node& node);  // [B, S, width of the table]

Status lower_fused_matmul(const Node& node, LoweredOp& lowered);
Status lower_contrib_gelu(const Node& node, LoweredOp& lowered);
Status lower_fast_gelu(const Node& node, LoweredOp& lowered);
Status lower_quick_gelu(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
