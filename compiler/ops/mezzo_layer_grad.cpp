// Gradients of layers, domain ai.mezzo, beside those of mezzo_grad.cpp: of images, regions,
// signals, pools and recurrent layers. Operands and results as in kernels/README.md; results have
// the dims of forward operands, which whoever makes the node sets.
#include "compiler/ops/attention_rules.h"
#include "compiler/ops/families.h"
#include "compiler/ops/merge_types.h"
#include "compiler/ops/mezzo_rules.h"
#include "compiler/ops/window.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

// Result i has the type of operand i + 1.
Status infer_like_next_operands(Node& node) {
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    const Value* operand = node.operand(i + 1);
    if (node.result(i) == nullptr || operand == nullptr) continue;
    MEZZO_RETURN_IF_ERROR(merge_type(*node.result(i), operand->type));
  }
  return ok_status();
}

// Result i has the type of operand i + 2.
Status infer_linear_attention_grad(Node& node) {
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    const Value* operand = node.operand(i + 2);
    if (node.result(i) == nullptr || operand == nullptr) continue;
    MEZZO_RETURN_IF_ERROR(merge_type(*node.result(i), operand->type));
  }
  return ok_status();
}

// Results are like x, w, r, b, initial_h, initial_c, p, which begin at operand 3.
Status infer_recurrent_grad(Node& node) {
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    const Value* operand = node.operand(i < 4 ? 3 + i : 4 + i);
    if (node.result(i) == nullptr || operand == nullptr) continue;
    MEZZO_RETURN_IF_ERROR(merge_type(*node.result(i), operand->type));
  }
  return ok_status();
}

constexpr OpDef recurrent_grad(std::string_view name) {
  return {.name = name,
          .domain = kMezzoDomain,
          .precision = kAllow,
          .fp32_results = bits(1, 2, 3, 6),  // gradients of weights
          .padding = kUnpadded,
          .infer_types = infer_recurrent_grad,
          .not_differentiable = kIsGradient};
}

// dy [, ...] -> dx of the forward operand's dims.
constexpr OpDef image_grad(std::string_view name, PrecisionCategory precision,
                           std::uint32_t fp32_operands = 0) {
  return {.name = name,
          .domain = kMezzoDomain,
          .precision = precision,
          .fp32_operands = fp32_operands,
          .padding = kUnpadded,
          .infer_types = infer_dtype_of_operand0,
          .not_differentiable = kIsGradient};
}

constexpr OpDef kLayerGradOps[] = {
    recurrent_grad("RNNGrad"),
    recurrent_grad("GRUGrad"),
    recurrent_grad("LSTMGrad"),
    {.name = "LinearAttentionGrad",
     .domain = kMezzoDomain,
     .precision = kAllow,
     .padding = kUnpadded,
     .infer_types = infer_linear_attention_grad,
     .not_differentiable = kIsGradient},
    {.name = "ScaledDotProductAttentionGrad",
     .domain = kMezzoDomain,
     .precision = kAllow,
     .fp32_operands = bits(4, 6),
     .padding = kUnpadded,
     .infer_types = infer_attention_grad,
     .not_differentiable = kIsGradient},
    image_grad("ResizeGrad", kInfer),
    {.name = "GridSampleGrad",
     .domain = kMezzoDomain,
     .precision = kInfer,
     .fp32_operands = bits(2),
     .fp32_results = bits(1),
     .padding = kUnpadded,
     .infer_types = infer_like_next_operands,
     .not_differentiable = kIsGradient},
    image_grad("AffineGridGrad", kDeny),
    image_grad("RoiAlignGrad", kInfer, bits(2)),
    image_grad("MaxRoiPoolGrad", kInfer, bits(2)),
    image_grad("Col2ImGrad", kInfer),
    {.name = "LpPoolGrad",
     .domain = kMezzoDomain,
     .precision = kDeny,
     .padding = kUnpadded,
     .infer_types = infer_dtype_of_operand0,
     .not_differentiable = kIsGradient,
     .lower = lower_pool_grad},
    {.name = "DeformConvGrad",
     .domain = kMezzoDomain,
     .precision = kAllow,
     .fp32_operands = bits(3),
     .fp32_results = bits(1, 2),
     .padding = kUnpadded,
     .infer_types = infer_like_next_operands,
     .not_differentiable = kIsGradient},
    image_grad("DFTGrad", kDeny),
    {.name = "STFTGrad",
     .domain = kMezzoDomain,
     .precision = kDeny,
     .padding = kUnpadded,
     .infer_types = infer_like_next_operands,
     .not_differentiable = kIsGradient},
};

}  // namespace

std::span<const OpDef> mezzo_layer_grad_ops() { return kLayerGradOps; }

}  // namespace mezzo
