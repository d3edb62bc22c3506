// Reductions. Plain sums, and what squares or exponentiates before summing, leave float16's range
// or digits behind and stay FP32. A mean lies within the range of its operands and is accumulated
// in FP32 by every kernel, ours and the GPU libraries', so only its result is rounded: it follows
// its neighbours.
#include "compiler/ops/families.h"
#include "compiler/ops/index_rules.h"
#include "compiler/ops/reduce_rules.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kReduceOps[] = {
    {.name = "ReduceSum",
     .precision = kDeny,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_reduce_sum,
     .lower = lower_reduce},
    {.name = "ReduceMean",
     .precision = kInfer,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_reduce_mean,
     .lower = lower_reduce},
    {.name = "ReduceMax",
     .precision = kInfer,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_reduce_extreme,
     .lower = lower_reduce},
    {.name = "ReduceMin",
     .precision = kInfer,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_reduce_extreme,
     .lower = lower_reduce},
    {.name = "ReduceProd",
     .precision = kDeny,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_reduce_prod,
     .lower = lower_reduce},
    {.name = "ReduceSumSquare",
     .precision = kDeny,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_reduce_sum_square,
     .lower = lower_reduce},
    {.name = "ReduceL2",
     .precision = kDeny,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_reduce_l2,
     .lower = lower_reduce},
    {.name = "ReduceL1",
     .precision = kDeny,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_reduce_l1,
     .lower = lower_reduce},
    {.name = "ReduceLogSum",
     .precision = kDeny,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_reduce_log_sum,
     .lower = lower_reduce},
    {.name = "ReduceLogSumExp",
     .precision = kDeny,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_reduce_log_sum_exp,
     .lower = lower_reduce},
    {.name = "CumSum",
     .precision = kDeny,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_cum_sum,
     .lower = lower_scan},
    {.name = "CumProd",
     .precision = kDeny,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_cum_prod,
     .lower = lower_scan},
    // Rounding makes ties, and with them other indices: the values keep their type's category, the
    // choice is made on what arrives.
    {.name = "ArgMax",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult},
    {.name = "ArgMin",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult},
    {.name = "TopK",
     .precision = kInfer,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_top_k,
     .lower = lower_top_k},
};

}  // namespace

std::span<const OpDef> reduce_ops() { return kReduceOps; }

}  // namespace mezzo
