// Contractions: sums of products, accumulated in FP32 whatever the operands.
#include "compiler/ops/contraction_rules.h"
#include "compiler/ops/families.h"
#include "compiler/ops/layer_gradients.h"
#include "compiler/ops/reduce_rules.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kContractionOps[] = {
    {.name = "MatMul", .precision = kAllow, .padding = kContraction, .gradient = grad_matmul},
    {.name = "Gemm", .precision = kAllow, .padding = kContraction, .gradient = grad_gemm},
    {.name = "Einsum",
     .precision = kAllow,
     .padding = kUnpadded,
     .not_differentiable = kDecomposedRule,
     .no_kernel = kDecomposedKernel},
    {.name = "Attention",
     .precision = kAllow,
     .no_gradient_operands = bits(6),  // a mask may be a learned bias
     .padding = kUnpadded,
     .not_differentiable = kFunctionBodyRule,
     .no_kernel = kFunctionBodyKernel},
    {.name = "LinearAttention",
     .precision = kAllow,
     .padding = kUnpadded,
     .gradient = grad_linear_attention},
    {.name = "RotaryEmbedding",
     .precision = kInfer,
     .no_gradient_operands = bits(1, 2, 3),
     .padding = kUnpadded,
     .not_differentiable = kFunctionBodyRule,
     .no_kernel = kFunctionBodyKernel},
    {.name = "Det", .precision = kDeny, .padding = kUnpadded, .gradient = grad_det},
};

}  // namespace

std::span<const OpDef> contraction_ops() { return kContractionOps; }

}  // namespace mezzo
