// Quantization. Scales and zero points were calibrated for FP32 numbers: changing the type of
// what they scale changes the integers, so the floating-point side stays as it is.
#include "compiler/ops/families.h"
#include "compiler/ops/window.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kQuantizeOps[] = {
    {.name = "QuantizeLinear",
     .precision = kDeny,
     .fp32_operands = bits(1),
     .no_gradient_operands = bits(1, 2),
     .padding = kBreaksZero,
     .not_differentiable = kStaircase},
    {.name = "DequantizeLinear",
     .precision = kDeny,
     .fp32_operands = bits(1),
     .no_gradient_operands = kAllBits,
     .padding = kBreaksZero,
     .not_differentiable = kIntegersOnly},
    {.name = "DynamicQuantizeLinear",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kStaircase},
    {.name = "QLinearConv",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kIntegersOnly,
     .lower = lower_qlinear_conv},
    {.name = "QLinearMatMul",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kIntegersOnly},
    {.name = "ConvInteger",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .lower = lower_conv},
    {.name = "MatMulInteger",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand},
};

}  // namespace

std::span<const OpDef> quantize_ops() { return kQuantizeOps; }

}  // namespace mezzo
