// Shapes, constants and generators. Most of them are folded into constants before anything
// runs; what they generate is exact in FP32 only.
#include "compiler/ops/families.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

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
     .no_kernel = kFolded},
    // Steps add up: above 2048 float16 cannot count.
    {.name = "Range",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kPiecewiseConstant,
     .no_kernel = kFolded},
    {.name = "EyeLike",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kPiecewiseConstant,
     .no_kernel = kFolded},
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
