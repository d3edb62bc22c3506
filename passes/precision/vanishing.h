// What is too small for the low type and yet counts: weights of which a whole channel vanishes,
// though later operators bring that channel back, and operands in which single elements must not.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/support/dtype.h"

namespace mezzo::passes {

// Operands of which every element matters: what divides, or is divided by through a root.
bool every_element_matters(const Node& node, std::size_t operand);

// Below this, `low` keeps fewer significant bits than bfloat16 does.
double least_precise(DType low);

// The largest magnitude in the smallest channel of the weights of a contraction (Conv, MatMul,
// Gemm: operand 1) if that channel
//
// - is not all zero and lies below least_precise(low) as a whole, and
// - is scaled per channel behind the node: by a normalisation over the batch, an instance or a
//   group, or by a constant. A BatchNormalization with constant statistics counts only where it
//   makes the channel larger than least_precise(low) again: channels that died in training stay
//   dead.
//
// nullopt if there is no such channel.
std::optional<double> vanishing_channel(const Node& node, DType low);

}  // namespace mezzo::passes
