// Private to compiler/ops: gradients of functions of one operand (and of activations with learned
// or fixed parameters) that are composed of other nodes.
#pragma once

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

StatusOr<Gradients> grad_tan(GradientContext& ctx);
StatusOr<Gradients> grad_arcus(GradientContext& ctx);  // Asin, Acos
StatusOr<Gradients> grad_atan(GradientContext& ctx);
StatusOr<Gradients> grad_hyperbolic(GradientContext& ctx);  // Sinh, Cosh
StatusOr<Gradients> grad_asinh(GradientContext& ctx);
StatusOr<Gradients> grad_acosh(GradientContext& ctx);
StatusOr<Gradients> grad_atanh(GradientContext& ctx);

StatusOr<Gradients> grad_prelu(GradientContext& ctx);
StatusOr<Gradients> grad_celu(GradientContext& ctx);
StatusOr<Gradients> grad_selu(GradientContext& ctx);
StatusOr<Gradients> grad_mish(GradientContext& ctx);
StatusOr<Gradients> grad_softsign(GradientContext& ctx);
StatusOr<Gradients> grad_thresholded_relu(GradientContext& ctx);
StatusOr<Gradients> grad_shrink(GradientContext& ctx);

}  // namespace mezzo
