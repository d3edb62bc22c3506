// Activations. Relu's gradient and those of sigmoids come from the result, so that the operand need
// not be kept.
#include "compiler/ops/families.h"
#include "compiler/ops/function_gradients.h"
#include "compiler/ops/gradient_helpers.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kActivationOps[] = {
    {.name = "Relu", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_from_result},
    {.name = "Sigmoid", .precision = kInfer, .padding = kBreaksZero, .gradient = grad_from_result},
    {.name = "Tanh", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_from_result},
    {.name = "Gelu", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_from_operand},
    {.name = "Swish", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_from_operand},
    {.name = "HardSigmoid",
     .precision = kInfer,
     .padding = kBreaksZero,
     .gradient = grad_from_operand},
    {.name = "HardSwish",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_from_operand},
    {.name = "LeakyRelu",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_from_operand},
    {.name = "Elu", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_from_operand},
    // log(1 + exp(x)), but bounded by max(x, 0) + log 2: no overflow of its own.
    {.name = "Softplus", .precision = kDeny, .padding = kBreaksZero, .gradient = grad_from_operand},
    {.name = "PRelu", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_prelu},
    {.name = "Celu", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_celu},
    {.name = "Selu", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_selu},
    {.name = "Mish", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_mish},
    {.name = "SwiGLU",
     .precision = kInfer,
     .padding = kKeepsZero,
     .not_differentiable = kFunctionBodyRule,
     .no_kernel = kFunctionBodyKernel},
    {.name = "Softsign", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_softsign},
    {.name = "ThresholdedRelu",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_thresholded_relu},
    {.name = "Shrink",
     .precision = kInfer,
     .padding = kBreaksZero,  // with a negative lambd
     .gradient = grad_shrink},
};

}  // namespace

std::span<const OpDef> activation_ops() { return kActivationOps; }

}  // namespace mezzo
