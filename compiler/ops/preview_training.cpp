// Domain ai.onnx.preview.training: the optimizers that a model's training information may name.
#include "compiler/ops/families.h"

namespace mezzo {
namespace {

// One step on any number of tensors; the rate, the weights and the states stay FP32.
constexpr OpDef optimizer(std::string_view name) {
  return {.name = name,
          .domain = "ai.onnx.preview.training",
          .precision = PrecisionCategory::kDeny,
          .no_gradient_operands = kAllBits,
          .padding = PadRule::kUnpadded,
          .not_differentiable = "an optimizer's update is not differentiated"};
}

constexpr OpDef kPreviewTrainingOps[] = {optimizer("Adagrad"), optimizer("Adam"),
                                         optimizer("Momentum")};

}  // namespace

std::span<const OpDef> preview_training_ops() { return kPreviewTrainingOps; }

}  // namespace mezzo
