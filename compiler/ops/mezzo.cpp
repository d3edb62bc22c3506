// Domain ai.mezzo: what training and the runtime need beside ONNX's operators, and newer
// operators of ONNX (Gelu, Swish, LayerNormalization) for models whose opset does not have them
// yet. Operands and results as in kernels/README.md.
#include "compiler/ops/attention_rules.h"
#include "compiler/ops/contraction_rules.h"
#include "compiler/ops/families.h"
#include "compiler/ops/gradient_helpers.h"
#include "compiler/ops/lowering_helpers.h"
#include "compiler/ops/mezzo_rules.h"
#include "compiler/ops/norm_rules.h"
#include "compiler/ops/random_rules.h"
#include "compiler/ops/softmax_loss_rules.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr std::string_view kIsEpilogue =
    "placed after differentiation, when products take over what follows them";
constexpr std::string_view kIsFusion =
    "made after differentiation, of operators that have gradients";
constexpr std::string_view kIsLayout = "placed after differentiation, when layouts are chosen";

constexpr OpDef kMezzoOps[] = {
    // MatMul with the last two dimensions of an operand exchanged first, times alpha.
    {.name = "MatMulT",
     .domain = kMezzoDomain,
     .precision = kAllow,
     .padding = kContraction,
     .infer_types = infer_matmul_t,
     .gradient = grad_matmul_t},
    // What fuse-epilogues makes of products: a, b, bias -> y, the activation's operand.
    {.name = "MatMulActivation",
     .domain = kMezzoDomain,
     .precision = kAllow,
     .padding = kContraction,
     .infer_types = infer_matmul_activation,
     .not_differentiable = kIsEpilogue},
    // a, b, x -> y: the product times the activation's derivative at x.
    {.name = "MatMulActivationGrad",
     .domain = kMezzoDomain,
     .precision = kAllow,
     .padding = kContraction,
     .infer_types = infer_matmul_t,
     .not_differentiable = kIsEpilogue},
    // a, b -> y, sums of op(a) or op(b) along the inner dimension: the gradients of a weight and of
    // the bias beside it.
    {.name = "MatMulSums",
     .domain = kMezzoDomain,
     .precision = kAllow,
     .fp32_results = bits(1),
     .padding = kContraction,
     .infer_types = infer_matmul_sums,
     .not_differentiable = kIsEpilogue},
    // softmax(scale q k^T + bias) v, scores and Softmax in FP32 whatever the operands: what
    // fuse-attention makes of the nodes that spell it. Masks keep their FP32 numbers.
    {.name = "ScaledDotProductAttention",
     .domain = kMezzoDomain,
     .precision = kAllow,
     .fp32_operands = bits(3),
     .fp32_results = bits(1),
     .no_gradient_operands = bits(3),
     .padding = kUnpadded,
     .infer_types = infer_attention,
     .gradient = grad_attention},
    // Sums the gradients that arrive at one value. Residual networks sum them at every block on
    // the way back, so rounding each sum to 16 bits adds up: with 60 steps of AdamW on a residual
    // CNN in FP16, the weights end 20 % nearer to the FP32 run with these sums in FP32.
    {.name = "AddN",
     .domain = kMezzoDomain,
     .precision = kDeny,
     .padding = kKeepsZero,
     .infer_types = infer_like_operand0,
     .not_differentiable = kIsGradient},
    // Sums the dimensions in which a value was broadcast: the gradient of broadcasting.
    {.name = "SumTo",
     .domain = kMezzoDomain,
     .precision = kDeny,
     .padding = kKeepsZero,
     .infer_types = infer_dtype_of_operand0,
     .not_differentiable = kIsGradient},
    {.name = "FillZero",
     .domain = kMezzoDomain,
     .precision = kClear,
     .padding = kKeepsZero,
     .infer_types = infer_nothing,
     .not_differentiable = kNoFloatOperand},
    // x, scale, bias, mean, var -> y, running_mean, running_var, saved_mean, saved_inv_std.
    {.name = "BatchNormalizationTrain",
     .domain = kMezzoDomain,
     .precision = kInfer,
     .pin = PinKind::kNormalization,
     .fp32_operands = bits(1, 2, 3, 4),
     .fp32_results = bits(1, 2, 3, 4),
     .no_gradient_operands = bits(3, 4),
     .padding = kNormalization,
     .infer_types = infer_batch_norm_train,
     .gradient = grad_batch_norm_train,
     .lower = lower_batch_norm_train},
    // scores, labels, weights? -> loss, log_prob?, log_sum_exp: what the gradient needs beside the
    // scores.
    {.name = "SoftmaxCrossEntropyLossTrain",
     .domain = kMezzoDomain,
     .precision = kDeny,
     .pin = PinKind::kLoss,
     .fp32_operands = bits(0, 2),
     .fp32_results = bits(0, 1, 2),
     .no_gradient_operands = bits(1, 2),
     .padding = kUnpadded,
     .infer_types = infer_cross_entropy_train,
     .gradient = grad_softmax_cross_entropy_train,
     .lower = lower_cross_entropy_train},
    // x, counter -> y, mask. Which elements fall depends on their number, so on the unpadded
    // shape.
    {.name = "Dropout",
     .domain = kMezzoDomain,
     .precision = kInfer,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .infer_types = infer_dropout,
     .gradient = grad_counted_dropout},
    {.name = "LayerNormalization",
     .domain = kMezzoDomain,
     .precision = kInfer,
     .pin = PinKind::kNormalization,
     .fp32_operands = bits(1, 2),
     .fp32_results = bits(1, 2),
     .padding = kUnpadded,
     .infer_types = infer_layer_norm,
     .gradient = grad_layer_norm},
    {.name = "Gelu",
     .domain = kMezzoDomain,
     .precision = kInfer,
     .padding = kKeepsZero,
     .infer_types = infer_like_operand0,
     .gradient = grad_from_operand},
    {.name = "Swish",
     .domain = kMezzoDomain,
     .precision = kInfer,
     .padding = kKeepsZero,
     .infer_types = infer_like_operand0,
     .gradient = grad_from_operand},
    // The operand itself, which takes no gradient: PyTorch's detach.
    {.name = "StopGradient",
     .domain = kMezzoDomain,
     .precision = kClear,
     .no_gradient_operands = bits(0),
     .padding = kKeepsZero,
     .infer_types = infer_like_operand0,
     .not_differentiable = "it is there to stop gradients",
     .lower = lower_alias},
    // Elementwise operators in one (`program`; kernels/element_program.h). Operands that were cast
    // lie in either type, so that the result's cannot be told from them.
    {.name = "FusedElementwise",
     .domain = kMezzoDomain,
     .precision = kInfer,
     .padding = kUnpadded,
     .infer_types = infer_nothing,
     .not_differentiable = kIsFusion},
    // Another memory layout of the same elements.
    {.name = "Reorder",
     .domain = kMezzoDomain,
     .precision = kClear,
     .padding = kKeepsZero,
     .infer_types = infer_like_operand0,
     .not_differentiable = kIsLayout},
};

}  // namespace

std::span<const OpDef> mezzo_ops() { return kMezzoOps; }

}  // namespace mezzo
