#include "compiler/ops/contrib_types.h"

#include <algorithm>
#include <array>

namespace mezzo {
namespace {

// Inference operators, as ONNX Runtime 1.32 registers them.
constexpr auto kInference = std::to_array<ContribSignature>({
    {"Attention", "TTT.TT.", "TT", "T", "T"},
    {"BeamSearch", "T....UU.....", ".UU", "TU", ""},
    {"BiasAdd", "TTT", "T", "T", ""},
    {"BiasDropout", "TTTU.", "T.", "TU", "TU"},
    {"BiasGelu", "TT", "T", "T", "T"},
    {"BiasSoftmax", "TT", "T", "T", ""},
    {"BiasSplitGelu", "TT", "T", "T", ""},
    {"BitmaskBiasDropout", "TTTU.", "T.", "TU", "TU"},
    {"BitmaskDropout", "TU.", "T.", "TU", "TU"},
    {"CausalConvWithState", "TTTT", "TTT", "T", "T"},
    {"ComplexMul", "TT", "T", "T", ""},
    {"ComplexMulConj", "TT", "T", "T", ""},
    {"ConvTransposeWithDynamicPads", "TT.T", "T", "T", ""},
    {"CropAndResize", "TT..", "T", "T", ""},
    {"DecoderAttention", "TTTTT.TT....", "TTT", "T", ""},
    {"DecoderMaskedMultiHeadAttention", "TTT.TTT...T", "TTTU", "TU", ""},
    {"DecoderMaskedSelfAttention", "TTT.TT...", "TT", "T", ""},
    {"DequantizeLinear", ".T.", "T", "T", ""},
    {"EmbedLayerNormalization", "..TTTTT..", "T.T", "T", ""},
    {"ExpandDims", "T.", "T", "T", ""},
    {"FastGelu", "TT", "T", "T", "T"},
    {"FusedConv", "TTTT", "T", "T", ""},
    {"FusedGemm", "TTT", "T", "T", ""},
    {"FusedMatMul", "TT", "T", "T", "T"},
    {"FusedMatMulActivation", "TT", "T", "T", "T"},
    {"GatedRelativePositionBias", "TTTTTT.", "T", "T", ""},
    {"GatherBlockQuantized", "..T.", "T", "T", "T"},
    {"GatherND", "T.", "T", "T", ""},
    {"Gelu", "T", "T", "T", "T"},
    {"GemmFastGelu", "TTT", "T", "T", "T"},
    {"GemmFloat8", "TUVfff", "W", "TUVW", "TUVW"},
    {"GemmaRotaryEmbedding", "fTTTT", "TT", "T", ""},
    {"GridSample", "TT", "U", "TU", ""},
    {"GroupNorm", "TUU", "T", "TU", ""},
    {"GroupQueryAttention", "TTTUU..TT.TTffTT.", "TUUT", "TU", "TU"},
    {"Inverse", "T", "T", "T", ""},
    {"Irfft", "T", "T", "T", ""},
    {"IsAllFinite", "T*", ".", "T", "T"},
    {"LinearAttention", "TTTUTT", "TU", "TU", "TU"},
    {"LongformerAttention", "TTTTTT.", "T", "T", ""},
    {"MatMulBnb4", "T.T", "T", "T", "T"},
    {"MatMulIntegerToFloat", "..TT..T", "T", "T", ""},
    {"MatMulNBits", "T.TU.T", "T", "TU", "TU"},
    {"MoE", "TTTTTTTT", "T", "T", "T"},
    {"MultiHeadAttention", "TTTT.TTT..", "TTTU", "TU", "TU"},
    {"NhwcConv", "TTT", "T", "T", ""},
    {"NhwcFusedConv", "TTTT", "T", "T", ""},
    {"PackedAttention", "TTT..T", "T", "T", ""},
    {"PackedMultiHeadAttention", "TTTT..T", "T", "T", ""},
    {"Pad", "T.T", "T", "T", ""},
    {"PagedAttention", "TTTUU...TT.TTTff.", "TUU", "TU", "TU"},
    {"QAttention", "..TTT...T", "TT", "T", ""},
    {"QMoE", "TT.UT.UT.UT...TffffUU", "T", "TU", "TU"},
    {"QuantizeLinear", "TT.", ".", "T", ""},
    {"QuickGelu", "T", "T", "T", "T"},
    {"RelativePositionBias", "T..", "T", "T", ""},
    {"RemovePadding", "T.", "T...", "T", ""},
    {"RestorePadding", "T.", "T", "T", ""},
    {"Rfft", "T", "T", "T", ""},
    {"RotaryEmbedding", "T.TT", "T", "T", "T"},
    {"SimplifiedLayerNormalization", "TU", "Uf", "TU", "TU"},
    {"SkipGroupNorm", "TUUTT", "TT", "TU", ""},
    {"SkipLayerNormalization", "TTTTT", "TffT", "T", "T"},
    {"SkipSimplifiedLayerNormalization", "TTTT", "TffT", "T", "T"},
    {"SparseAttention", "TTTTT....TT", "TTT", "T", "T"},
    {"SwiGLU", "TT", "T", "T", "T"},
    {"TorchEmbedding", "T...", "T", "T", "T"},
    {"TransposeMatMul", "TT", "T", "T", "T"},
    {"Trilu", "T.", "T", "T", "T"},
    {"UnfoldTensor", "T", "T", "T", "T"},
    {"Unique", "T", "T..", "T", ""},
    {"WhisperBeamSearch", "T....UU.......U", ".UUfU", "TU", ""},
});

// Operators of its training builds, which hold float16 and bfloat16 alike but for the pools.
constexpr auto kTraining = std::to_array<ContribSignature>({
    {"AveragePoolGrad", "TT", "T", "T", ""},
    {"BatchNormInternal", "TUUVV", "TVVUU", "TUV", "TUV"},
    {"BatchNormalizationGrad", "TTTTT", "TTT", "T", "T"},
    {"BiasFastGeluGrad_dX", "TTT", "T", "T", "T"},
    {"BiasGeluGrad_dX", "TTT", "T", "T", "T"},
    {"BitmaskDropoutGrad", "T.U.", "T", "TU", "TU"},
    {"ConcatTraining", "T*", "T.", "T", "T"},
    {"ConvGrad", "TTT", "TTT", "T", "T"},
    {"DivGrad", "TTT", "TT", "T", "T"},
    {"DropoutGrad", "T.U.", "T", "TU", "TU"},
    {"FastGeluGrad", "TT", "T", "T", "T"},
    {"GatherElementsGrad", "T..", "T", "T", "T"},
    {"GatherGrad", "..T", "T", "T", "T"},
    {"GatherNDGrad", "..T", "T", "T", "T"},
    {"GeluGrad", "TT", "T", "T", "T"},
    {"LayerNormalizationGrad", "TTTff", "TTT", "T", "T"},
    {"LeakyReluGrad", "TT", "T", "T", "T"},
    {"LogSoftmaxGrad", "TT", "T", "T", "T"},
    {"LogSoftmaxGrad_13", "TT", "T", "T", "T"},
    {"MaxPoolGrad", "T.", "T", "T", ""},
    {"QuickGeluGrad", "TT", "T", "T", "T"},
    {"ReduceSumTraining", "T.", "T", "T", "T"},
    {"ReluGrad", "TT", "T", "T", "T"},
    {"Scale", "T.", "T", "T", ""},
    {"SigmoidGrad", "TT", "T", "T", "T"},
    {"SimplifiedLayerNormalizationGrad", "TTTf", "TT", "T", "T"},
    {"SliceGrad", "T.....", "T", "T", "T"},
    {"SoftmaxCrossEntropyLossGrad", "TT...", "T", "T", "T"},
    {"SoftmaxCrossEntropyLossInternal", "T.T.", "TT", "T", "T"},
    {"SoftmaxCrossEntropyLossInternalGrad", "TT.T.T", "T", "T", "T"},
    {"SoftmaxGrad", "TT", "T", "T", "T"},
    {"SoftmaxGrad_13", "TT", "T", "T", "T"},
    {"SplitTraining", "T.", "T*", "T", "T"},
    {"TanhGrad", "TT", "T", "T", "T"},
});

constexpr bool precedes(const ContribSignature& a, const ContribSignature& b) {
  return a.name < b.name;
}
static_assert(std::is_sorted(kInference.begin(), kInference.end(), precedes));
static_assert(std::is_sorted(kTraining.begin(), kTraining.end(), precedes));

const ContribSignature* find_in(std::span<const ContribSignature> sorted, std::string_view name) {
  const auto found = std::lower_bound(
      sorted.begin(), sorted.end(), name,
      [](const ContribSignature& signature, std::string_view key) { return signature.name < key; });
  return found != sorted.end() && found->name == name ? &*found : nullptr;
}

}  // namespace

char ContribSignature::at(std::string_view list, std::size_t index) {
  const bool variadic = !list.empty() && list.back() == '*';
  if (variadic) list.remove_suffix(1);
  if (index < list.size()) return list[index];
  return variadic && !list.empty() ? list.back() : '\0';
}

const ContribSignature* find_contrib_signature(std::string_view op_type, std::string_view domain) {
  if (domain != "com.microsoft") return nullptr;
  const ContribSignature* found = find_in(kInference, op_type);
  return found != nullptr ? found : find_in(kTraining, op_type);
}

std::span<const ContribSignature> contrib_signatures() { return kInference; }
std::span<const ContribSignature> contrib_training_signatures() { return kTraining; }

}  // namespace mezzo
