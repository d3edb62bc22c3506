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
     .not_differentiable = kFunctionBodyRule},
    {.name = "GroupNormalization",
     .precision = kInfer,
     .pin = PinKind::kNormalization,
     .fp32_operands = bits(1, 2),
     .padding = kUnpadded,  // a group's mean runs over channels
     .not_differentiable = kFunctionBodyRule},
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
     .not_differentiable = kFunctionBodyRule},
    {.name = "LpNormalization",
     .precision = kDeny,
     .pin = PinKind::kNormalization,
     .padding = kUnpadded,  // 0 / 0 before opset 22
     .not_differentiable = kNoRuleYet},
    {.name = "LRN",
     .precision = kDeny,  // a sum of squares to a power
     .pin = PinKind::kNormalization,
     .padding = kKeepsZero,
     .not_differentiable = kNoRuleYet},
};

}  // namespace

std::span<const OpDef> norm_ops() { return kNormOps; }

}  // namespace mezzo
