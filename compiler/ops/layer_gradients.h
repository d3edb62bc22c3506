// Private to compiler/ops: gradient rules of layers whose gradient is a node of ours that goes back
// the way the forward kernel came, with the forward node's attributes in their lowered form:
// images, regions, signals, pools, recurrent layers.
#pragma once

#include "compiler/ops/op_def.h"

namespace mezzo {

StatusOr<std::vector<Value*>> grad_resize(GradientContext& ctx);  // Resize, Upsample
StatusOr<std::vector<Value*>> grad_grid_sample(GradientContext& ctx);
StatusOr<std::vector<Value*>> grad_affine_grid(GradientContext& ctx);
StatusOr<std::vector<Value*>> grad_roi(GradientContext& ctx);  // RoiAlign, MaxRoiPool
StatusOr<std::vector<Value*>> grad_deform_conv(GradientContext& ctx);
StatusOr<std::vector<Value*>> grad_col2im(GradientContext& ctx);
StatusOr<std::vector<Value*>> grad_max_unpool(GradientContext& ctx);
StatusOr<std::vector<Value*>> grad_lp_pool(GradientContext& ctx);  // LpPool, GlobalLpPool
StatusOr<std::vector<Value*>> grad_dft(GradientContext& ctx);
StatusOr<std::vector<Value*>> grad_stft(GradientContext& ctx);
StatusOr<std::vector<Value*>> grad_linear_attention(GradientContext& ctx);
StatusOr<std::vector<Value*>> grad_recurrent(GradientContext& ctx);  // RNN, LSTM, GRU

}  // namespace mezzo
