// Control flow and optionals. The category is that of the node itself; the precision passes
// decide about the nodes inside. What crosses the border of a body follows its neighbours.
#include "compiler/ops/families.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr std::string_view kNoControlFlow =
    "the runtime executes straight lines only; fold its condition or trip count into a constant";
constexpr std::string_view kNoOptionals = "the runtime has no optional values";

constexpr OpDef kControlOps[] = {
    {.name = "If",
     .precision = kInfer,
     .no_gradient_operands = bits(0),
     .padding = kUnpadded,
     .not_differentiable = kUnrolledRule,
     .no_kernel = kNoControlFlow},
    {.name = "Loop",
     .precision = kInfer,
     .no_gradient_operands = bits(0, 1),
     .padding = kUnpadded,
     .not_differentiable = kUnrolledRule,
     .no_kernel = kNoControlFlow},
    {.name = "Scan",
     .precision = kInfer,
     .padding = kUnpadded,
     .not_differentiable = kUnrolledRule,
     .no_kernel = kNoControlFlow},
    {.name = "Optional",
     .precision = kClear,
     .padding = kUnpadded,
     .not_differentiable = kNoKernelRule,
     .no_kernel = kNoOptionals},
    {.name = "OptionalHasElement",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult,
     .no_kernel = kNoOptionals},
    {.name = "OptionalGetElement",
     .precision = kClear,
     .padding = kUnpadded,
     .not_differentiable = kNoKernelRule,
     .no_kernel = kNoOptionals},
};

}  // namespace

std::span<const OpDef> control_ops() { return kControlOps; }

}  // namespace mezzo
