#include "kernels/cuda/dnn_statistics.h"

#include "kernels/cuda/launch.h"

namespace mezzo::kernels::cuda::dnn {

// The variance is got back from inv_std in double: epsilon is often far larger than it.
__global__ void running_statistics(RunningStatistics how, const float* mean, const float* inv_std,
                                   const float* old_mean, const float* old_variance,
                                   float* running_mean, float* running_variance) {
  std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; c < how.channels; c += std::int64_t{gridDim.x} * blockDim.x) {
    if (running_mean != nullptr) {
      running_mean[c] = old_mean[c] * how.share + mean[c] * (1.0F - how.share);
    }
    if (running_variance != nullptr) {
      const double inverse = inv_std[c];
      const double variance = fmax(1.0 / (inverse * inverse) - how.epsilon, 0.0);
      running_variance[c] =
          static_cast<float>(old_variance[c] * static_cast<double>(how.share) +
                             variance * how.correction * (1.0 - static_cast<double>(how.share)));
    }
  }
}

Status update_running(const RunningStatistics& how, const float* mean, const float* inv_std,
                      const float* old_mean, const float* old_variance, float* running_mean,
                      float* running_variance, void* stream) {
  if (how.channels == 0) return ok_status();
  return launch<running_statistics>(shape_for(how.channels), stream, how, mean, inv_std, old_mean,
                                    old_variance, running_mean, running_variance);
}

}  // namespace mezzo::kernels::cuda::dnn
