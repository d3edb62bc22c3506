// SGD, Adam, AdamW, LAMB and Adagrad, element by element: runtime/train/optimizer.h has the
// formulas and their sources. Coefficients are computed in double and rounded once; elements are
// float32, operation by operation and without fused multiply-add.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/formulas/host_device.h"

namespace mezzo::kernels {

enum class OptimizerKind : std::int32_t { kSgd, kAdam, kAdamW, kLamb, kAdagrad };

enum class AdamWForm : std::int32_t { kPyTorch, kHuggingFace };

// Settings of a group of parameters. Defaults are PyTorch's but for weight_decay, which is 0, and
// eps, which PyTorch has 1e-10 for Adagrad and Apex 1e-6 for LAMB: see default_eps().
struct OptimizerGroup {
  OptimizerKind kind = OptimizerKind::kSgd;
  double lr = 1e-3;  // multiplied by the schedule's factor
  double weight_decay = 0.0;
  double momentum = 0.0;   // SGD
  double dampening = 0.0;  // SGD with momentum
  bool nesterov = false;   // SGD with momentum and without dampening
  double beta1 = 0.9;      // Adam, AdamW, LAMB
  double beta2 = 0.999;
  double eps = 1e-8;            // all but SGD
  bool bias_correction = true;  // Adam, AdamW, LAMB
  AdamWForm adamw_form = AdamWForm::kPyTorch;
  double lr_decay = 0.0;             // Adagrad
  double initial_accumulator = 0.0;  // Adagrad: what the sum of squares starts from
  // The formulas of ONNX's ai.onnx.preview.training. `shrink` is Adam's alone.
  bool onnx_form = false;
  std::int64_t first_count = 0;
  double shrink = 0.0;
  bool frozen = false;  // never changed; gradients not looked at
};

struct SgdCoefficients {
  float lr, weight_decay, momentum;
  float fresh;  // factor of the gradient in the velocity: 1 - dampening, 1 at the first step
  bool nesterov;
};

struct AdamCoefficients {
  float weight_decay;  // added to the gradient (Adam)
  float keep;          // factor on the weight before the update (AdamW): 1 - lr wd, else 1
  float keep_after;    // the same after it (the HuggingFace form of AdamW), else 1
  float one_minus_beta1, beta2, one_minus_beta2;
  float step_size;        // lr / (1 - beta1^t)
  float root_correction;  // sqrt(1 - beta2^t)
  float eps;
};

struct AdagradCoefficients {
  float lr, weight_decay, eps;
};

struct LambCoefficients {
  float weight_decay;
  float one_minus_beta1, beta2, one_minus_beta2;
  float mean_correction;  // 1 / (1 - beta1^t)
  float root_correction;  // sqrt(1 - beta2^t)
  float eps;
};

// 1 - beta^t, or 1 without correction.
MEZZO_HD inline double bias_correction(const OptimizerGroup& group, double beta,
                                       std::int64_t step) {
  return group.bias_correction ? 1.0 - std::pow(beta, static_cast<double>(step)) : 1.0;
}

// ONNX's T: updates before this one, counted from the group's first.
MEZZO_HD inline std::int64_t update_count(const OptimizerGroup& group, std::int64_t step) {
  return step - 1 + (group.onnx_form ? group.first_count : 0);
}

template <typename Coefficients>
MEZZO_HD inline void set_moments(Coefficients& k, const OptimizerGroup& group) {
  k.one_minus_beta1 = static_cast<float>(1.0 - group.beta1);
  k.beta2 = static_cast<float>(group.beta2);
  k.one_minus_beta2 = static_cast<float>(1.0 - group.beta2);
  k.eps = static_cast<float>(group.eps);
}

// `lr` is the group's times the schedule's factor; `step` counts from 1.
MEZZO_HD inline SgdCoefficients sgd_coefficients(const OptimizerGroup& group, double lr,
                                                 std::int64_t step) {
  SgdCoefficients k = {};
  k.lr = static_cast<float>(lr);
  k.weight_decay = static_cast<float>(group.weight_decay);
  k.momentum = static_cast<float>(group.momentum);
  k.fresh = update_count(group, step) == 0 ? 1.0F : static_cast<float>(1.0 - group.dampening);
  k.nesterov = group.nesterov;
  return k;
}

MEZZO_HD inline AdamCoefficients onnx_adam_coefficients(const OptimizerGroup& group, double lr,
                                                        std::int64_t step) {
  const std::int64_t count = update_count(group, step);
  const double left1 = 1.0 - std::pow(group.beta1, static_cast<double>(count));
  const double left2 = 1.0 - std::pow(group.beta2, static_cast<double>(count));
  AdamCoefficients k = {};
  set_moments(k, group);
  k.weight_decay = static_cast<float>(group.weight_decay);
  k.keep = 1.0F;
  k.keep_after = static_cast<float>(1.0 - group.shrink);
  k.step_size = static_cast<float>(lr * (count > 0 ? std::sqrt(left2) / left1 : 1.0));
  k.root_correction = 1.0F;
  return k;
}

MEZZO_HD inline AdamCoefficients adam_coefficients(const OptimizerGroup& group, double lr,
                                                   std::int64_t step) {
  if (group.onnx_form) return onnx_adam_coefficients(group, lr, step);
  const double correction1 = bias_correction(group, group.beta1, step);
  const double root2 = std::sqrt(bias_correction(group, group.beta2, step));
  const bool decoupled = group.kind == OptimizerKind::kAdamW;
  const bool decays_after = decoupled && group.adamw_form == AdamWForm::kHuggingFace;
  const auto keep = static_cast<float>(1.0 - lr * group.weight_decay);
  AdamCoefficients k = {};
  set_moments(k, group);
  k.weight_decay = decoupled ? 0.0F : static_cast<float>(group.weight_decay);
  k.keep = decoupled && !decays_after ? keep : 1.0F;
  k.keep_after = decays_after ? keep : 1.0F;
  k.step_size = static_cast<float>(lr * (decays_after ? root2 : 1.0) / correction1);
  k.root_correction = decays_after ? 1.0F : static_cast<float>(root2);
  return k;
}

MEZZO_HD inline LambCoefficients lamb_coefficients(const OptimizerGroup& group, std::int64_t step) {
  LambCoefficients k = {};
  set_moments(k, group);
  k.weight_decay = static_cast<float>(group.weight_decay);
  k.mean_correction = static_cast<float>(1.0 / bias_correction(group, group.beta1, step));
  k.root_correction = static_cast<float>(std::sqrt(bias_correction(group, group.beta2, step)));
  return k;
}

// From the sums of squares over a whole parameter; 1 where either is 0.
MEZZO_HD inline float trust_ratio(double weight_squares, double update_squares) {
  return weight_squares > 0 && update_squares > 0
             ? static_cast<float>(std::sqrt(weight_squares / update_squares))
             : 1.0F;
}

// What LAMB's update is multiplied by.
MEZZO_HD inline float lamb_rate(double lr, float trust) {
  return static_cast<float>(lr * static_cast<double>(trust));
}

MEZZO_HD inline AdagradCoefficients adagrad_coefficients(const OptimizerGroup& group, double lr,
                                                         std::int64_t step) {
  AdagradCoefficients k = {};
  k.lr = static_cast<float>(
      lr / (1.0 + static_cast<double>(update_count(group, step)) * group.lr_decay));
  k.weight_decay = static_cast<float>(group.weight_decay);
  k.eps = static_cast<float>(group.eps);
  return k;
}

// A gradient as the optimizer sees it. clip_value: infinity for none.
MEZZO_HD_INLINE float unscaled(float g, float inverse_scale, float clip_factor, float clip_value) {
  const float value = g * inverse_scale * clip_factor;
  const float below = value > clip_value ? clip_value : value;
  return below < -clip_value ? -clip_value : below;
}

// With eps = 0 and no gradient ever, 0/0 counts as 0.
MEZZO_HD_INLINE float without_zero(float divisor) { return divisor == 0.0F ? 1.0F : divisor; }

// The functions below give the new weight from the old one, `w`, and the unscaled gradient, `g`,
// and bring the state up to date.
MEZZO_HD_INLINE float sgd_element(const SgdCoefficients& k, float w, float g) {
  return w - k.lr * (g + k.weight_decay * w);
}

enum class Momentum { kPlain, kNesterov };

template <Momentum kind>
MEZZO_HD_INLINE float sgd_momentum_element(const SgdCoefficients& k, float w, float g,
                                           float& velocity) {
  const float direction = g + k.weight_decay * w;
  const float v = k.momentum * velocity + k.fresh * direction;
  velocity = v;
  return w - k.lr * (kind == Momentum::kNesterov ? direction + k.momentum * v : v);
}

MEZZO_HD_INLINE float adam_element(const AdamCoefficients& k, float w, float gradient, float& mean,
                                   float& mean_square) {
  const float g = gradient + k.weight_decay * w;
  const float m = mean + k.one_minus_beta1 * (g - mean);
  const float v = k.beta2 * mean_square + k.one_minus_beta2 * g * g;
  mean = m;
  mean_square = v;
  const float divisor = without_zero(std::sqrt(v) / k.root_correction + k.eps);
  return (w * k.keep - k.step_size * m / divisor) * k.keep_after;
}

MEZZO_HD_INLINE float adagrad_element(const AdagradCoefficients& k, float w, float gradient,
                                      float& sum) {
  const float g = gradient + k.weight_decay * w;
  const float s = sum + g * g;
  sum = s;
  const float divisor = without_zero(std::sqrt(s) + k.eps);
  // g / divisor alone would be g where the divisor is 1, and GCC 12 makes a branch of that.
  return w - k.lr * g / divisor;
}

MEZZO_HD_INLINE void lamb_moments(const LambCoefficients& k, float g, float& mean,
                                  float& mean_square) {
  const float m = mean + k.one_minus_beta1 * (g - mean);
  const float v = k.beta2 * mean_square + k.one_minus_beta2 * g * g;
  mean = m;
  mean_square = v;
}

// What a weight w with moments m and v is to move by, before rate and trust ratio.
MEZZO_HD_INLINE float lamb_update(const LambCoefficients& k, float w, float m, float v) {
  const float divisor = without_zero(std::sqrt(v) / k.root_correction + k.eps);
  return m * k.mean_correction / divisor + k.weight_decay * w;
}

// One step of a moving average; share = 1 - decay.
MEZZO_HD_INLINE float averaged(float average, float w, float share) {
  return average + share * (w - average);
}

}  // namespace mezzo::kernels
