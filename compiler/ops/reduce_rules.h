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
StatusOr<Gradients> grad_reduce_l2(GradientContext& ctx);
// ReduceMax, ReduceMin, GlobalMaxPool: equal extremes share the gradient, as in PyTorch's amax.
StatusOr<Gradients> grad_reduce_extreme(GradientContext& ctx);

Status lower_reduce(const Node& node, LoweredOp& lowered);
Status lower_scan(const Node& node, LoweredOp& lowered);
Status lower_global_max_pool(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
