// Private to compiler/ops: gradients and lowering of reductions.
#pragma once

#include <vector>

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

// The axes a Reduce* node reduces, in [0, rank), sorted. Empty: the node changes nothing
// (noop_with_empty_axes). Unimplemented: the axes depend on the run, or the rank is unknown.
StatusOr<std::vector<std::int64_t>> reduced_axes(const Node& node);

StatusOr<Gradients> grad_reduce_sum(GradientContext& ctx);
StatusOr<Gradients> grad_reduce_mean(GradientContext& ctx);
StatusOr<Gradients> grad_reduce_sum_square(GradientContext& ctx);
// 0 where the norm is 0, as in PyTorch.
StatusOr<Gradients> grad_reduce_l2(GradientContext& ctx);
// ReduceMax, ReduceMin, GlobalMaxPool: equal extremes share the gradient, as in PyTorch's amax.
StatusOr<Gradients> grad_reduce_extreme(GradientContext& ctx);

// reduce_gradients.cpp
StatusOr<Gradients> grad_reduce_l1(GradientContext& ctx);
StatusOr<Gradients> grad_reduce_log_sum(GradientContext& ctx);
StatusOr<Gradients> grad_reduce_log_sum_exp(GradientContext& ctx);
StatusOr<Gradients> grad_reduce_prod(GradientContext& ctx);
StatusOr<Gradients> grad_cum_sum(GradientContext& ctx);
StatusOr<Gradients> grad_cum_prod(GradientContext& ctx);
StatusOr<Gradients> grad_det(GradientContext& ctx);

// A result of a reduction, or its gradient, as if keepdims were 1.
StatusOr<Value*> keep_dims(GradientContext& ctx, Value* value);

Status lower_reduce(const Node& node, LoweredOp& lowered);
Status lower_scan(const Node& node, LoweredOp& lowered);
Status lower_global_max_pool(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
