// Private to compiler/ops: lowering of resampling and of regions of interest.
#pragma once

#include "compiler/ops/op_def.h"

namespace mezzo {

// Scales, sizes and regions become attributes.
Status lower_resize(const Node& node, LoweredOp& lowered);
Status lower_upsample(const Node& node, LoweredOp& lowered);  // Resize with fixed coordinates

// The sizes of image and result are the result's, the shape of a block becomes an attribute.
Status lower_col2im(const Node& node, LoweredOp& lowered);
Status lower_affine_grid(const Node& node, LoweredOp& lowered);
Status lower_max_unpool(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
