// Private to compiler/ops: type rules and lowering of the domain com.microsoft. Meanings follow
// ONNX Runtime's operator documentation (docs/ContribOperators.md).
#pragma once

#include "compiler/ops/mezzo_rules.h"

namespace mezzo {

Status infer_fused_matmul(Node& node);

Status lower_fused_matmul(const Node& node, LoweredOp& lowered);
Status lower_contrib_gelu(const Node& node, LoweredOp& lowered);
Status lower_fast_gelu(const Node& node, LoweredOp& lowered);
Status lower_quick_gelu(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
