// Arithmetic, and functions of one operand. Those whose result grows or loses digits quickly (exp,
// log, pow, roots, reciprocals) stay FP32; the rest follow their neighbours.
#include "compiler/ops/elementwise_rules.h"
#include "compiler/ops/families.h"
#include "compiler/ops/function_gradients.h"
#include "compiler/ops/gradient_helpers.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kElementwiseOps[] = {
    {.name = "Add", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_add},
    {.name = "Sub", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_sub},
    {.name = "Mul", .precision = kInfer, .padding = kZeroTimesAny, .gradient = grad_mul},
    // 0 / 0 is NaN.
    {.name = "Div", .precision = kInfer, .padding = kBreaksZero, .gradient = grad_div},
    {.name = "Mod", .precision = kInfer, .padding = kBreaksZero, .gradient = grad_mod},
    {.name = "Pow", .precision = kDeny, .padding = kBreaksZero, .gradient = grad_pow},
    {.name = "Max",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_max_min,
     .lower = lower_max_min},
    {.name = "Min",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_max_min,
     .lower = lower_max_min},
    {.name = "Sum",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_sum,
     .lower = lower_sum},
    {.name = "Mean",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_mean,
     .lower = lower_mean},

    {.name = "Abs", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_from_operand},
    {.name = "Neg", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_neg},
    {.name = "Sqrt", .precision = kDeny, .padding = kKeepsZero, .gradient = grad_from_result},
    {.name = "Reciprocal",
     .precision = kDeny,
     .padding = kBreaksZero,
     .gradient = grad_from_result},
    {.name = "Exp", .precision = kDeny, .padding = kBreaksZero, .gradient = grad_from_result},
    {.name = "Log", .precision = kDeny, .padding = kBreaksZero, .gradient = grad_from_operand},
    {.name = "Erf", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_from_operand},
    // Arguments of sines are angles, often positions times frequencies: 16 bits lose the phase.
    {.name = "Sin", .precision = kDeny, .padding = kKeepsZero, .gradient = grad_from_operand},
    {.name = "Cos", .precision = kDeny, .padding = kBreaksZero, .gradient = grad_from_operand},
    {.name = "Clip",
     .precision = kInfer,
     .padding = kBreaksZero,  // unless 0 lies between the limits
     .gradient = grad_clip,
     .lower = lower_clip},
    {.name = "Where",
     .precision = kInfer,
     .no_gradient_operands = bits(0),
     .padding = kKeepsZero,  // if both branches are zero there
     .gradient = grad_where},

    {.name = "Sign", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_zero},
    {.name = "Ceil", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_zero},
    {.name = "Floor", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_zero},
    {.name = "Round", .precision = kInfer, .padding = kKeepsZero, .gradient = grad_zero},
    {.name = "Tan", .precision = kDeny, .padding = kKeepsZero, .gradient = grad_tan},
    {.name = "Asin", .precision = kDeny, .padding = kKeepsZero, .gradient = grad_arcus},
    {.name = "Acos", .precision = kDeny, .padding = kBreaksZero, .gradient = grad_arcus},
    {.name = "Atan", .precision = kDeny, .padding = kKeepsZero, .gradient = grad_atan},
    {.name = "Sinh", .precision = kDeny, .padding = kKeepsZero, .gradient = grad_hyperbolic},
    {.name = "Cosh", .precision = kDeny, .padding = kBreaksZero, .gradient = grad_hyperbolic},
    {.name = "Asinh", .precision = kDeny, .padding = kKeepsZero, .gradient = grad_asinh},
    {.name = "Acosh", .precision = kDeny, .padding = kBreaksZero, .gradient = grad_acosh},
    {.name = "Atanh", .precision = kDeny, .padding = kKeepsZero, .gradient = grad_atanh},
};

}  // namespace

std::span<const OpDef> elementwise_ops() { return kElementwiseOps; }

}  // namespace mezzo
