// Normalisations. Pinned to FP32 by default; where a policy lifts the pin, activations may be low
// while statistics, scale and bias stay FP32.
#include "compiler/ops/families.h"
#include "compiler/ops/norm_rules.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kNormOps[] = {
    {.name = "BatchNormalization",
     .precision = kInfer,
     .pin = PinKind::kNormalization,
     .fp32_operands = bits(1, 2, 3, 4),
     .fp32_results = bits(1, 2),
     .no_gradient_operands = bits(3, 4),
     .padding = kNormalization,
     .gradient = grad_batch_norm},
    {.name = "LayerNormalization",
     .precision = kInfer,
     .pin = PinKind::kNormalization,
     .fp32_operands = bits(1, 2),
     .fp32_results = bits(1, 2),
     .padding = kUnpadded,  // the mean divides by the logical size
     .gradient = grad_layer_norm},
    {.name = "RMSNormalization",
     .precision = kInfer,
     .pin = PinKind::kNormalization,
     .fp32_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_rms_norm},
    {.name = "GroupNormalization",
     .precision = kInfer,
     .pin = PinKind::kNormalization,
     .fp32_operands = bits(1, 2),
     .padding = kUnpadded,  // a group's mean runs over channels
     .not_differentiable = kDecomposedRule},
    {.name = "InstanceNormalization",
     .precision = kInfer,
     .pin = PinKind::kNormalization,
     .fp32_operands = bits(1, 2),
     .padding = kNormalization,
     .not_differentiable = kDecomposedRule},
    {.name = "MeanVarianceNormalization",
     .precision = kInfer,
     .pin = PinKind::kNormalization,
     .padding = kUnpadded,
     .gradient = grad_mean_variance_norm},
    {.name = "LpNormalization",
     .precision = kDeny,
     .pin = PinKind::kNormalization,
     .padding = kUnpadded,  // 0 / 0 before opset 22
     .gradient = grad_lp_norm},
    {.name = "LRN",
     .precision = kDeny,  // a sum of squares to a power
     .pin = PinKind::kNormalization,
     .padding = kKeepsZero,
     .gradient = grad_lrn},
};

}  // namespace

std::span<const OpDef> norm_ops() { return kNormOps; }

}  // namespace mezzo
