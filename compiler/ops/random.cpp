// Dropout and random numbers. Dropout of ONNX is executed as the identity; training replaces it
// by our counter-based Dropout (mezzo.cpp), so that a resumed run draws the same numbers.
#include "compiler/ops/families.h"
#include "compiler/ops/random_rules.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr std::string_view kNoRandomKernel = "the runtime draws random numbers for Dropout only";

constexpr OpDef kRandomOps[] = {
    {.name = "Dropout",
     .precision = kInfer,
     .no_gradient_operands = bits(1, 2),
     .padding = kKeepsZero,
     .gradient = grad_dropout,
     .lower = lower_dropout},
    {.name = "RandomNormal",
     .precision = kDeny,
     .padding = kUnpadded,
     .not_differentiable = "random numbers do not depend on their operands",
     .no_kernel = kNoRandomKernel},
    {.name = "RandomNormalLike",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = "random numbers do not depend on their operands",
     .no_kernel = kNoRandomKernel},
    {.name = "RandomUniform",
     .precision = kDeny,
     .padding = kUnpadded,
     .not_differentiable = "random numbers do not depend on their operands",
     .no_kernel = kNoRandomKernel},
    {.name = "RandomUniformLike",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = "random numbers do not depend on their operands",
     .no_kernel = kNoRandomKernel},
    // Draws compare with probabilities.
    {.name = "Bernoulli",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kPiecewiseConstant,
     .no_kernel = kNoRandomKernel},
    {.name = "Multinomial",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult,
     .no_kernel = kNoRandomKernel},
};

}  // namespace

std::span<const OpDef> random_ops() { return kRandomOps; }

}  // namespace mezzo
