// Gather, scatter and selection by index. Gather of a weight is an embedding, which the default
// policy keeps FP32; gathered activations only move.
#include "compiler/ops/families.h"
#include "compiler/ops/index_rules.h"
#include "compiler/ops/movement_rules.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kIndexOps[] = {
    {.name = "Gather",
     .precision = kClear,
     .pin = PinKind::kEmbedding,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_gather},
    {.name = "GatherElements",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_gather_elements},
    {.name = "GatherND",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_gather_nd},
    // With a reduction they add; a category per attribute value would buy little, so both follow
    // their neighbours.
    {.name = "Scatter",
     .precision = kInfer,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_scatter_elements,
     .lower = lower_scatter},
    {.name = "ScatterElements",
     .precision = kInfer,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_scatter_elements},
    {.name = "ScatterND",
     .precision = kInfer,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .gradient = grad_scatter_nd},
    {.name = "TensorScatter",
     .precision = kInfer,
     .no_gradient_operands = bits(2),
     .padding = kUnpadded,
     .gradient = grad_tensor_scatter},
    {.name = "Compress",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .not_differentiable = kDecomposedRule},
    {.name = "NonZero",
     .precision = kDeny,  // rounding makes zeros
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult},
    {.name = "Unique",
     .precision = kDeny,  // rounding makes equals
     .padding = kUnpadded,
     .not_differentiable = kDataSizedRule},
    {.name = "OneHot",
     .precision = kClear,
     .no_gradient_operands = bits(0, 1),
     .padding = kUnpadded,
     .gradient = grad_one_hot,
     .lower = lower_one_hot},
    {.name = "NonMaxSuppression",
     .precision = kDeny,  // overlaps of coordinates
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult},
};

}  // namespace

std::span<const OpDef> index_ops() { return kIndexOps; }

}  // namespace mezzo
