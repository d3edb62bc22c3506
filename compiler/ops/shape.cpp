// Shapes, constants and generators. Most of them are folded into constants before anything
// runs; what they generate is exact in FP32 only.
#include <string>

#include "compiler/ops/families.h"
#include "compiler/ops/index_rules.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

// The kernel takes the value as a second operand, which a tensor in an attribute is not.
Status lower_constant_of_shape(const Node& node, LoweredOp&) {
  const Attribute* value = node.attribute("value");
  const auto* tensor = value ? std::get_if<NamedTensor>(&value->value) : nullptr;
  if (tensor == nullptr || !tensor->tensor) return ok_status();
  for (const double element : tensor->tensor->to_doubles()) {
    if (element != 0.0) return unimplemented(describe(node) + ": " + std::string(kFolded));
  }
  return ok_status();
}

constexpr OpDef kShapeOps[] = {
    {.name = "Shape",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult},
    {.name = "Size",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult},
    {.name = "Constant",
     .precision = kClear,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kFolded},
    {.name = "ConstantOfShape",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .lower = lower_constant_of_shape},
    // Steps add up: above 2048 float16 cannot count.
    {.name = "Range",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kPiecewiseConstant},
    {.name = "EyeLike",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kPiecewiseConstant,
     .lower = lower_eye_like},
    {.name = "BlackmanWindow",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kFolded},
    {.name = "HannWindow",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kFolded},
    {.name = "HammingWindow",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kFolded},
    {.name = "MelWeightMatrix",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kFolded},
};

}  // namespace

std::span<const OpDef> shape_ops() { return kShapeOps; }

}  // namespace mezzo
