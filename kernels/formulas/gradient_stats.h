// What one pass over the gradients finds before the optimizer: do they hold inf or NaN, and what is
// their global L2 norm.
#pragma once

#include <cfloat>
#include <cmath>

#include "kernels/formulas/host_device.h"

namespace mezzo::kernels {

// Sum over all gradients as they lie in memory, that is, still multiplied by the loss scale. Ranks
// of a distributed run add their sums.
struct GradientStats {
  // In double: squares of float32 numbers neither overflow nor vanish there, so the sum is finite
  // exactly if every gradient is.
  double sum_of_squares = 0.0;

  // `inverse_scale` = 1 / loss scale. Also true where unscaling by a factor over 1 leaves float32's
  // range.
  MEZZO_HD bool found_inf(float inverse_scale) const {
    return !(norm(inverse_scale) <= static_cast<double>(FLT_MAX));
  }
  // Norm of the unscaled gradients, before clipping.
  MEZZO_HD double norm(float inverse_scale) const {
    return std::sqrt(sum_of_squares) * static_cast<double>(inverse_scale);
  }
};

// Factor that brings a norm down to `clip_norm`: min(1, clip_norm / (norm + 1e-6)), as
// torch.nn.utils.clip_grad_norm_. 1 where clip_norm is 0 (no clipping).
MEZZO_HD inline float clip_factor(double norm, double clip_norm) {
  if (clip_norm <= 0) return 1.0F;
  return static_cast<float>(std::fmin(1.0, clip_norm / (norm + 1e-6)));
}

}  // namespace mezzo::kernels
