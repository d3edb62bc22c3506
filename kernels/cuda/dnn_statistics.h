// What BatchNormalization publishes beside the library's results.
#pragma once

#include <cstdint>

#include "compiler/support/status.h"

namespace mezzo::kernels::cuda::dnn {

// running = old share + batch (1 - share), for mean and variance of C channels, all float32:
// mean[C], inv_std[C] = 1 / sqrt(variance + epsilon) of the batch. Null where one is not wanted.
struct RunningStatistics {
  std::int64_t channels = 0;
  float share = 0.0F;
  float correction = 1.0F;  // of the batch's variance: n / (n - 1), or 1
  float epsilon = 0.0F;
};

Status update_running(const RunningStatistics& how, const float* mean, const float* inv_std,
                      const float* old_mean, const float* old_variance, float* running_mean,
                      float* running_variance, void* stream);

}  // namespace mezzo::kernels::cuda::dnn
