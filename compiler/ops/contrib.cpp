// Operators of ONNX Runtime's domain com.microsoft that exported, optimised and quantised models
// hold. They are known to the precision passes (contrib_types.h has their types); those the runtime
// executes lower to a kernel, the others name what is missing.
#include "compiler/ops/contrib_rules.h"
#include "compiler/ops/families.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr std::string_view kMicrosoft = "com.microsoft";

// An operator without kernel and gradient. Nor is it padded, not even FusedGemm and FusedConv: what
// is fused to the product need not leave zeros zero.
constexpr OpDef op(std::string_view name, PrecisionCategory precision, TypeRule infer_types,
                   PinKind pin = PinKind::kNone, std::uint32_t fp32_operands = 0) {
  return {.name = name,
          .domain = kMicrosoft,
          .precision = precision,
          .pin = pin,
          .fp32_operands = fp32_operands,
          .padding = kUnpadded,
          .infer_types = infer_types,
          .not_differentiable = kNoKernelRule,
          .no_kernel = kNoKernelYet};
}

// The same, of integers or for them: nothing to differentiate.
constexpr OpDef without_gradient(std::string_view name, std::string_view reason,
                                 PinKind pin = PinKind::kNone) {
  OpDef def = op(name, kDeny, infer_contrib, pin);
  def.not_differentiable = reason;
  return def;
}

// An operator that decompose() spells out in others.
constexpr OpDef spelled(std::string_view name, PrecisionCategory precision, TypeRule infer_types,
                        PinKind pin = PinKind::kNone, std::uint32_t fp32_operands = 0) {
  OpDef def = op(name, precision, infer_types, pin, fp32_operands);
  def.not_differentiable = kDecomposedRule;
  def.no_kernel = kDecomposedKernel;
  return def;
}

constexpr OpDef spelled_integers(std::string_view name, std::string_view reason = kIntegersOnly) {
  OpDef def = spelled(name, kDeny, infer_contrib);
  def.not_differentiable = reason;
  return def;
}

// Elementwise, with a kernel; differentiated as the operators of ours that decompose() makes of it.
constexpr OpDef elementwise(std::string_view name, LoweringRule lower) {
  return {.name = name,
          .domain = kMicrosoft,
          .precision = kInfer,
          .padding = kKeepsZero,
          .infer_types = infer_contrib_like_first,
          .not_differentiable = kDecomposedRule,
          .lower = lower};
}

constexpr OpDef kContribOps[] = {
    // Products, with what is fused to them.
    {.name = "FusedMatMul",
     .domain = kMicrosoft,
     .precision = kAllow,
     .padding = kContraction,
     .infer_types = infer_fused_matmul,
     .not_differentiable = kDecomposedRule,
     .lower = lower_fused_matmul},
    spelled("FusedMatMulActivation", kAllow, infer_fused_matmul),
    spelled("TransposeMatMul", kAllow, infer_fused_matmul),
    spelled("FusedGemm", kAllow, infer_fused_gemm),
    spelled("GemmFastGelu", kAllow, infer_contrib),
    spelled("FusedConv", kAllow, infer_contrib),
    op("NhwcConv", kAllow, infer_contrib),
    op("NhwcFusedConv", kAllow, infer_contrib),
    op("ConvTransposeWithDynamicPads", kAllow, infer_contrib),
    op("CausalConvWithState", kAllow, infer_contrib_like_first),
    op("MoE", kAllow, infer_contrib_like_first),
    // Weights of few bits, activations of 16.
    spelled("MatMulNBits", kAllow, infer_matmul_n_bits),
    op("MatMulBnb4", kAllow, infer_matmul_n_bits),
    op("MatMulFpQ4", kAllow, infer_contrib),
    op("QMoE", kAllow, infer_contrib_like_first),
    op("GemmFloat8", kDeny, infer_contrib),
    op("GatherBlockQuantized", kInfer, infer_contrib, PinKind::kEmbedding),
    // Attention.
    spelled("Attention", kAllow, infer_contrib_attention),
    spelled("MultiHeadAttention", kAllow, infer_multi_head_attention),
    op("GroupQueryAttention", kAllow, infer_grouped_attention),
    op("DecoderAttention", kAllow, infer_contrib_like_first),
    op("DecoderMaskedMultiHeadAttention", kAllow, infer_contrib),
    op("DecoderMaskedSelfAttention", kAllow, infer_contrib),
    op("LinearAttention", kAllow, infer_contrib, PinKind::kNone, bits(3)),
    op("LongformerAttention", kAllow, infer_contrib_like_first),
    op("PackedAttention", kAllow, infer_contrib),
    op("PackedMultiHeadAttention", kAllow, infer_contrib),
    op("PagedAttention", kAllow, infer_contrib),
    op("SparseAttention", kAllow, infer_contrib),
    op("GatedRelativePositionBias", kInfer, infer_contrib),
    op("RelativePositionBias", kInfer, infer_contrib, PinKind::kEmbedding),
    spelled("RotaryEmbedding", kInfer, infer_contrib_like_first),
    op("GemmaRotaryEmbedding", kDeny, infer_contrib),  // angles in FP32, the rest in float16 only
    // Elementwise.
    elementwise("Gelu", lower_contrib_gelu),
    elementwise("FastGelu", lower_fast_gelu),
    elementwise("QuickGelu", lower_quick_gelu),
    spelled("BiasAdd", kInfer, infer_contrib_like_first),
    op("BiasDropout", kInfer, infer_contrib_like_first),
    spelled("BiasGelu", kInfer, infer_contrib_like_first),
    spelled("BiasSplitGelu", kInfer, infer_halved),
    op("BitmaskBiasDropout", kInfer, infer_contrib_like_first),
    op("BitmaskDropout", kInfer, infer_contrib_like_first),
    op("ComplexMul", kInfer, infer_contrib_like_first),
    op("ComplexMulConj", kInfer, infer_contrib_like_first),
    op("SwiGLU", kInfer, infer_contrib),
    // Normalisations and Softmax.
    spelled("SkipLayerNormalization", kInfer, infer_skip_norm, PinKind::kNormalization,
            bits(2, 3, 4)),
    spelled("SimplifiedLayerNormalization", kInfer, infer_like_operand0, PinKind::kNormalization,
            bits(1)),
    spelled("SkipSimplifiedLayerNormalization", kInfer, infer_skip_norm, PinKind::kNormalization,
            bits(2)),
    spelled("GroupNorm", kInfer, infer_contrib_like_first, PinKind::kNormalization, bits(1, 2)),
    spelled("SkipGroupNorm", kInfer, infer_skip_group_norm, PinKind::kNormalization, bits(1, 2)),
    spelled("BiasSoftmax", kDeny, infer_contrib_like_first, PinKind::kSoftmax),
    spelled_integers("QLinearSoftmax"),
    // Embeddings.
    spelled("EmbedLayerNormalization", kInfer, infer_embed_layer_norm, PinKind::kEmbedding),
    spelled("TorchEmbedding", kInfer, infer_contrib, PinKind::kEmbedding),
    // Moving data.
    spelled("ExpandDims", kClear, infer_contrib),
    spelled("GatherND", kClear, infer_contrib),
    op("Pad", kClear, infer_contrib),
    op("RemovePadding", kClear, infer_contrib),
    op("RestorePadding", kClear, infer_contrib),
    spelled("Trilu", kClear, infer_contrib_like_first),
    op("UnfoldTensor", kClear, infer_contrib),
    op("CropAndResize", kInfer, infer_contrib),
    op("GridSample", kInfer, infer_contrib),
    // Sums, inverses, comparisons: not safe in 16 bits.
    op("CDist", kDeny, infer_contrib),
    op("Inverse", kDeny, infer_contrib_like_first),
    without_gradient("IsAllFinite", kNoFloatResult),
    op("Irfft", kDeny, infer_contrib),
    op("Rfft", kDeny, infer_contrib),
    op("Unique", kDeny, infer_contrib),
    without_gradient("MurmurHash3", kNoFloatResult),
    op("NGramRepeatBlock", kDeny, infer_contrib),
    // Searches hold whole decoders in subgraphs.
    without_gradient("BeamSearch", kNoFloatResult),
    without_gradient("GreedySearch", kNoFloatResult),
    without_gradient("Sampling", kNoFloatResult),
    without_gradient("WhisperBeamSearch", kNoFloatResult),
    // Scales and zero points are exact or wrong.
    without_gradient("DequantizeLinear", kIntegersOnly),
    without_gradient("QuantizeLinear", kStaircase),
    without_gradient("DynamicQuantizeLSTM", kStaircase),
    spelled_integers("DynamicQuantizeMatMul", kStaircase),
    without_gradient("MatMulInteger16", kIntegersOnly),
    spelled_integers("MatMulIntegerToFloat"),
    without_gradient("QAttention", kIntegersOnly),
    without_gradient("QEmbedLayerNormalization", kIntegersOnly, PinKind::kEmbedding),
    spelled_integers("QGemm"),
    spelled_integers("QLinearAdd"),
    spelled_integers("QLinearAveragePool"),
    spelled_integers("QLinearConcat"),
    without_gradient("QLinearConv", kIntegersOnly),
    spelled_integers("QLinearGlobalAveragePool"),
    spelled_integers("QLinearLeakyRelu"),
    spelled_integers("QLinearMul"),
    spelled_integers("QLinearReduceMean"),
    spelled_integers("QLinearSigmoid"),
    without_gradient("QLinearWhere", kIntegersOnly),
};

}  // namespace

std::span<const OpDef> contrib_ops() { return kContribOps; }

}  // namespace mezzo
