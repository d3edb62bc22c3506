// Private to compiler/ops: type rules and lowering of the domain ai.mezzo.
//
// For SumTo, FillZero, SliceGrad, GatherGrad, ConvGradInput, ConvGradWeight, MaxPoolGrad,
// AveragePoolGrad and GlobalAveragePoolGrad the dims of the result are those of the forward
// operand, which operand types do not tell: whoever makes the node sets them, inference gives the
// element type only and lets the dims stay.
#pragma once

#include "compiler/ops/op_def.h"

namespace mezzo {

Status infer_nothing(Node& node);
Status infer_like_operand0(Node& node);
Status infer_like_operand1(Node& node);
Status infer_dtype_of_operand0(Node& node);
Status infer_matmul_t(Node& node);
Status infer_matmul_activation(Node& node);  // result 1 like result 0
Status infer_matmul_sums(Node& node);
// a b with the last two dims of a or b exchanged first. Ranks must be equal, batches broadcast.
Status infer_product(Node& node, bool trans_a, bool trans_b);
Status infer_conv_grad_bias(Node& node);
Status infer_norm_grad(Node& node);  // dx like x, dscale and dbias like scale
Status infer_layer_norm(Node& node);
Status infer_batch_norm_train(Node& node);
Status infer_cross_entropy_train(Node& node);
Status infer_dropout(Node& node);

Status lower_batch_norm_train(const Node& node, LoweredOp& lowered);
Status lower_cross_entropy_train(const Node& node, LoweredOp& lowered);
Status lower_conv_grad_input(const Node& node, LoweredOp& lowered);
Status lower_conv_grad_weight(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
