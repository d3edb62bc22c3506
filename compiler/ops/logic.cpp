// Comparisons, truth values, bits and casts.
#include "compiler/ops/families.h"
#include "compiler/ops/gradient_helpers.h"
#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

// Casts back; nothing flows through integers.
StatusOr<Gradients> grad_cast(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  const DType dtype = ctx.node.operand(0)->dtype();
  Value* dy = ctx.result_grads[0];
  if (!ctx.wanted[0] || !is_floating(dtype) || !is_floating(ctx.node.result()->dtype()))
    return grads;
  grads[0] = dy->dtype() == dtype
                 ? dy
                 : ctx.builder.op("Cast", {dy}, {{"to", static_cast<std::int64_t>(dtype)}});
  return grads;
}

// The kernel reads the target type from its result.
Status lower_cast(const Node&, LoweredOp& lowered) {
  lowered.kernel = "Cast";
  erase_attribute(lowered, "to");
  keep_operands(lowered, 1);
  return ok_status();
}

Status lower_bit_cast(const Node&, LoweredOp& lowered) {
  lowered.attributes.clear();  // the result's dtype says it
  return ok_status();
}

constexpr std::string_view kReinterprets = "it reads the same bits as another type";

constexpr OpDef kLogicOps[] = {
    {.name = "Cast",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_cast,
     .lower = lower_cast},
    {.name = "CastLike",
     .precision = kInfer,
     .no_gradient_operands = bits(1),
     .padding = kKeepsZero,
     .gradient = grad_cast,
     .lower = lower_cast},
    {.name = "BitCast",
     .precision = kDeny,  // the bits of another type mean something else
     .padding = kKeepsZero,
     .not_differentiable = kReinterprets,
     .lower = lower_bit_cast},
    {.name = "Equal",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kBreaksZero,
     .not_differentiable = kNoFloatResult},
    {.name = "Less",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kBreaksZero,
     .not_differentiable = kNoFloatResult},
    {.name = "LessOrEqual",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kBreaksZero,
     .not_differentiable = kNoFloatResult},
    {.name = "Greater",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kBreaksZero,
     .not_differentiable = kNoFloatResult},
    {.name = "GreaterOrEqual",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kBreaksZero,
     .not_differentiable = kNoFloatResult},
    {.name = "IsNaN",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kKeepsZero,
     .not_differentiable = kNoFloatResult},
    {.name = "IsInf",
     .precision = kDeny,  // a cast can make an infinity of a finite number
     .no_gradient_operands = kAllBits,
     .padding = kKeepsZero,
     .not_differentiable = kNoFloatResult},
    {.name = "And",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kKeepsZero,
     .not_differentiable = kNoFloatOperand},
    {.name = "Or",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kKeepsZero,
     .not_differentiable = kNoFloatOperand},
    {.name = "Xor",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kKeepsZero,
     .not_differentiable = kNoFloatOperand},
    {.name = "Not",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kBreaksZero,
     .not_differentiable = kNoFloatOperand},
    {.name = "BitShift",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kKeepsZero,
     .not_differentiable = kNoFloatOperand},
    {.name = "BitwiseAnd",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kKeepsZero,
     .not_differentiable = kNoFloatOperand},
    {.name = "BitwiseOr",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kKeepsZero,
     .not_differentiable = kNoFloatOperand},
    {.name = "BitwiseXor",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kKeepsZero,
     .not_differentiable = kNoFloatOperand},
    {.name = "BitwiseNot",
     .precision = kInfer,
     .no_gradient_operands = kAllBits,
     .padding = kBreaksZero,
     .not_differentiable = kNoFloatOperand},
};

}  // namespace

std::span<const OpDef> logic_ops() { return kLogicOps; }

}  // namespace mezzo
