// Private to compiler/ops: windows that slide over spatial dimensions, of convolutions and pools.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ops/op_def.h"

namespace mezzo {

// One entry per spatial dimension; `pads` has the begins, then the ends.
struct Window {
  std::vector<std::int64_t> kernel, strides, pads, dilations;
};

// Reads a node's attributes, with kernel_shape from the weight's dims where the attribute is absent
// and auto_pad resolved for the spatial dims of `x`. `weight` may be null (pools). `y` is needed
// for ConvTranspose alone. Unimplemented where a shape is needed and unknown, InvalidArgument where
// the attributes contradict each other.
StatusOr<Window> window_of(const Node& node, const Value& x, const Value* weight);
StatusOr<Window> transposed_window_of(const Node& node, const Value& x, const Value& weight,
                                      const Value& y);

// kernel_shape, strides, pads and dilations as node attributes.
std::vector<Builder::NamedValue> window_attributes(const Window& window);

// Lowering of pools and convolutions: writes the window into the attributes.
Status lower_pool(const Node& node, LoweredOp& lowered);          // x is operand 0
Status lower_pool_grad(const Node& node, LoweredOp& lowered);     // x is result 0
Status lower_conv(const Node& node, LoweredOp& lowered);          // x, w are operands 0, 1
Status lower_qlinear_conv(const Node& node, LoweredOp& lowered);  // x, w are operands 0, 3
Status lower_conv_transpose(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
