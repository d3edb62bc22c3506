// Operators of com.microsoft in ONNX Runtime's training artifacts: gradients, losses, updates.
#include "compiler/ops/contrib_rules.h"
#include "compiler/ops/families.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr std::string_view kIsUpdate = "an optimizer's update is not differentiated";

constexpr OpDef gradient(std::string_view name, PrecisionCategory precision, TypeRule infer_types,
                         PinKind pin = PinKind::kNone, PadRule padding = kUnpadded,
                         std::uint32_t fp32_results = 0) {
  return {.name = name,
          .domain = "com.microsoft",
          .precision = precision,
          .pin = pin,
          .fp32_results = fp32_results,
          .padding = padding,
          .infer_types = infer_types,
          .not_differentiable = kIsGradient,
          .no_kernel = kDecomposedKernel};
}

constexpr OpDef forward(std::string_view name, PrecisionCategory precision,
                        PinKind pin = PinKind::kNone, std::uint32_t fp32_operands = 0) {
  return {.name = name,
          .domain = "com.microsoft",
          .precision = precision,
          .pin = pin,
          .fp32_operands = fp32_operands,
          .padding = kUnpadded,
          .infer_types = infer_contrib,
          .not_differentiable = kDecomposedRule,
          .no_kernel = kDecomposedKernel};
}

constexpr OpDef of_shapes(std::string_view name) {
  OpDef def = forward(name, kDeny);
  def.not_differentiable = kNoFloatResult;
  return def;
}

constexpr OpDef update(std::string_view name) {
  return {.name = name,
          .domain = "com.microsoft",
          .precision = kDeny,
          .padding = kUnpadded,
          .infer_types = infer_contrib,
          .not_differentiable = kIsUpdate,
          .no_kernel = kNoSequences};
}

constexpr OpDef elementwise(std::string_view name) {
  return gradient(name, kInfer, infer_contrib_like_first, PinKind::kNone, kKeepsZero);
}

constexpr OpDef kTrainingOps[] = {
    elementwise("BiasFastGeluGrad_dX"),
    elementwise("BiasGeluGrad_dX"),
    elementwise("DropoutGrad"),
    elementwise("FastGeluGrad"),
    elementwise("GeluGrad"),
    elementwise("QuickGeluGrad"),
    elementwise("ReluGrad"),
    elementwise("SigmoidGrad"),
    elementwise("TanhGrad"),
    elementwise("LeakyReluGrad"),
    gradient("BitmaskDropoutGrad", kInfer, infer_contrib_like_first),
    gradient("DivGrad", kDeny, infer_contrib),
    gradient("ConvGrad", kAllow, infer_contrib),
    gradient("AveragePoolGrad", kInfer, infer_contrib),
    gradient("MaxPoolGrad", kInfer, infer_contrib),
    gradient("GatherElementsGrad", kInfer, infer_contrib),
    gradient("GatherNDGrad", kInfer, infer_contrib),
    gradient("GatherGrad", kInfer, infer_contrib, PinKind::kEmbedding, kUnpadded, bits(0)),
    gradient("SliceGrad", kClear, infer_contrib),
    gradient("BatchNormalizationGrad", kInfer, infer_contrib, PinKind::kNormalization),
    gradient("LayerNormalizationGrad", kInfer, infer_contrib, PinKind::kNormalization),
    gradient("SimplifiedLayerNormalizationGrad", kInfer, infer_contrib, PinKind::kNormalization),
    gradient("SoftmaxGrad", kDeny, infer_contrib_like_first, PinKind::kSoftmax),
    gradient("SoftmaxGrad_13", kDeny, infer_contrib_like_first, PinKind::kSoftmax),
    gradient("LogSoftmaxGrad", kDeny, infer_contrib_like_first, PinKind::kSoftmax),
    gradient("LogSoftmaxGrad_13", kDeny, infer_contrib_like_first, PinKind::kSoftmax),
    gradient("SoftmaxCrossEntropyLossGrad", kDeny, infer_contrib, PinKind::kLoss),
    gradient("SoftmaxCrossEntropyLossInternalGrad", kDeny, infer_contrib, PinKind::kLoss),
    forward("SoftmaxCrossEntropyLossInternal", kDeny, PinKind::kLoss),
    forward("BatchNormInternal", kInfer, PinKind::kNormalization, bits(1, 2, 3, 4)),
    forward("ConcatTraining", kInfer),
    forward("SplitTraining", kClear),
    forward("ReduceSumTraining", kDeny),
    forward("Scale", kInfer, PinKind::kNone),
    of_shapes("BroadcastGradientArgs"),
    gradient("InPlaceAccumulatorV2", kDeny, infer_contrib),  // adds over micro-batches
    update("SGDOptimizerV2"),
    update("AdamWOptimizer"),
};

}  // namespace

std::span<const OpDef> contrib_training_ops() { return kTrainingOps; }

}  // namespace mezzo
