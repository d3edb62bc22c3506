// Private to compiler/ops: gradients of normalisations.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

// What LayerNormalization and RMSNormalization normalise: x's dims from `axis` on.
struct NormalisedPart {
  std::int64_t axis = 0;  // not negative
  std::vector<Dim> dims;

  StatusOr<double> count(const Node& node) const;  // Unimplemented where a dim is not known
};
StatusOr<NormalisedPart> normalised_part(const GradientContext& ctx);
// Scale and bias may be broadcast in ONNX; gradients' kernels take them whole.
Value* whole_factor(GradientContext& ctx, const NormalisedPart& part, Value* factor);
// The gradient of a factor made whole by the above.
Value* sum_factor(GradientContext& ctx, Value* grad, const Value& factor);

// ONNX's BatchNormalization with fixed statistics. In training form the node becomes
// BatchNormalizationTrain of ours, which also gives the batch's own statistics.
StatusOr<Gradients> grad_batch_norm(GradientContext& ctx);
StatusOr<Gradients> grad_batch_norm_train(GradientContext& ctx);
StatusOr<Gradients> grad_layer_norm(GradientContext& ctx);  // through all three results

// norm_gradients.cpp
StatusOr<Gradients> grad_rms_norm(GradientContext& ctx);
StatusOr<Gradients> grad_lp_norm(GradientContext& ctx);
StatusOr<Gradients> grad_mean_variance_norm(GradientContext& ctx);
StatusOr<Gradients> grad_lrn(GradientContext& ctx);

}  // namespace mezzo
