// Data movement: bits are moved unchanged, whatever their type. Reshapes only rename dimensions and
// share their operand's bytes at run time.
#include "compiler/ops/families.h"
#include "compiler/ops/index_rules.h"
#include "compiler/ops/lowering_helpers.h"
#include "compiler/ops/movement_rules.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kMovementOps[] = {
    {.name = "Identity",
     .precision = kClear,
     .padding = kKeepsZero,
     .gradient = grad_reshape,
     .lower = lower_alias},
    {.name = "Reshape",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,  // the target names logical sizes
     .gradient = grad_reshape,
     .lower = lower_alias},
    {.name = "Flatten",
     .precision = kClear,
     .padding = kUnpadded,
     .gradient = grad_reshape,
     .lower = lower_alias},
    {.name = "Squeeze",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kKeepsZero,
     .gradient = grad_reshape,
     .lower = lower_alias},
    {.name = "Unsqueeze",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kKeepsZero,
     .gradient = grad_reshape,
     .lower = lower_alias},
    {.name = "Transpose", .precision = kClear, .padding = kKeepsZero, .gradient = grad_transpose},
    {.name = "Concat",
     .precision = kInfer,
     .padding = kUnpadded,  // along the channels, padding would lie between the parts
     .gradient = grad_concat,
     .lower = lower_concat},
    {.name = "Split",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_split,
     .lower = lower_split},
    {.name = "Slice",
     .precision = kClear,
     .no_gradient_operands = bits(1, 2, 3, 4),
     .padding = kUnpadded,
     .gradient = grad_slice,
     .lower = lower_slice},
    {.name = "Expand",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_expand,
     .lower = lower_expand},
    {.name = "Pad",
     .precision = kClear,
     .no_gradient_operands = bits(1, 3),
     .padding = kUnpadded,
     .gradient = grad_pad,
     .lower = lower_pad},
    {.name = "Trilu",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kKeepsZero,
     .gradient = grad_trilu,
     .lower = lower_trilu},
    {.name = "Tile",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .not_differentiable = kDecomposedRule,
     .no_kernel = kDecomposedKernel},
    {.name = "DepthToSpace",
     .precision = kClear,
     .padding = kUnpadded,
     .not_differentiable = kDecomposedRule,
     .no_kernel = kDecomposedKernel},
    {.name = "SpaceToDepth",
     .precision = kClear,
     .padding = kUnpadded,
     .not_differentiable = kDecomposedRule,
     .no_kernel = kDecomposedKernel},
    {.name = "CenterCropPad",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .not_differentiable = kFunctionBodyRule,
     .no_kernel = kFunctionBodyKernel},
    {.name = "ReverseSequence",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_reverse_sequence},
};

}  // namespace

std::span<const OpDef> movement_ops() { return kMovementOps; }

}  // namespace mezzo
