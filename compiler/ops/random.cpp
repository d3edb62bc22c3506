// Dropout and random numbers. Dropout of ONNX in training mode counts the runs of its kernel;
// training replaces it by our counter-based Dropout (mezzo.cpp), so that a resumed run draws the
// same numbers.
#include "compiler/ops/families.h"
#include "compiler/ops/random_rules.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

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
     .lower = lower_random},
    {.name = "RandomNormalLike",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = "random numbers do not depend on their operands",
     .lower = lower_random},
    {.name = "RandomUniform",
     .precision = kDeny,
     .padding = kUnpadded,
     .not_differentiable = "random numbers do not depend on their operands",
     .lower = lower_random},
    {.name = "RandomUniformLike",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = "random numbers do not depend on their operands",
     .lower = lower_random},
    // Draws compare with probabilities.
    {.name = "Bernoulli",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kPiecewiseConstant,
     .lower = lower_draw},
    {.name = "Multinomial",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult,
     .lower = lower_draw},
};

}  // namespace

std::span<const OpDef> random_ops() { return kRandomOps; }

}  // namespace mezzo
