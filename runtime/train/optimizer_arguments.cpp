#include "runtime/train/optimizer_arguments.h"

#include <cmath>

namespace mezzo::runtime {
namespace {

// 1 - beta^t, or 1 without correction.
double bias_correction(const OptimizerGroup& group, double beta, std::int64_t step) {
  return group.bias_correction ? 1.0 - std::pow(beta, static_cast<double>(step)) : 1.0;
}

// ONNX's T: updates before this one, counted from the group's first.
std::int64_t update_count(const OptimizerGroup& group, std::int64_t step) {
  return step - 1 + (group.onnx_form ? group.first_count : 0);
}

template <typename Arguments>
void set_moments(Arguments& arguments, const OptimizerGroup& group) {
  arguments.one_minus_beta1 = static_cast<float>(1.0 - group.beta1);
  arguments.beta2 = static_cast<float>(group.beta2);
  arguments.one_minus_beta2 = static_cast<float>(1.0 - group.beta2);
  arguments.eps = static_cast<float>(group.eps);
}

AdamArguments onnx_adam_arguments(const OptimizerGroup& group, double lr, std::int64_t step) {
  const std::int64_t count = update_count(group, step);
  const auto left = [&](double beta) { return 1.0 - std::pow(beta, static_cast<double>(count)); };
  AdamArguments arguments = {};
  set_moments(arguments, group);
  arguments.weight_decay = static_cast<float>(group.weight_decay);
  arguments.keep = 1.0F;
  arguments.keep_after = static_cast<float>(1.0 - group.shrink);
  const double correction = count > 0 ? std::sqrt(left(group.beta2)) / left(group.beta1) : 1.0;
  arguments.step_size = static_cast<float>(lr * correction);
  arguments.root_correction = 1.0F;
  return arguments;
}

}  // namespace

SgdArguments sgd_arguments(const OptimizerGroup& group, double lr, std::int64_t step) {
  SgdArguments arguments = {};
  arguments.lr = static_cast<float>(lr);
  arguments.weight_decay = static_cast<float>(group.weight_decay);
  arguments.momentum = static_cast<float>(group.momentum);
  arguments.fresh =
      update_count(group, step) == 0 ? 1.0F : static_cast<float>(1.0 - group.dampening);
  arguments.nesterov = group.nesterov;
  return arguments;
}

AdamArguments adam_arguments(const OptimizerGroup& group, double lr, std::int64_t step) {
  if (group.onnx_form) return onnx_adam_arguments(group, lr, step);
  const double correction1 = bias_correction(group, group.beta1, step);
  const double root2 = std::sqrt(bias_correction(group, group.beta2, step));
  const bool decoupled = group.kind == OptimizerKind::kAdamW;
  const bool decays_after = decoupled && group.adamw_form == AdamWForm::kHuggingFace;
  const auto keep = static_cast<float>(1.0 - lr * group.weight_decay);
  AdamArguments arguments = {};
  set_moments(arguments, group);
  arguments.weight_decay = decoupled ? 0.0F : static_cast<float>(group.weight_decay);
  arguments.keep = decoupled && !decays_after ? keep : 1.0F;
  arguments.keep_after = decays_after ? keep : 1.0F;
  arguments.step_size = static_cast<float>(lr * (decays_after ? root2 : 1.0) / correction1);
  arguments.root_correction = decays_after ? 1.0F : static_cast<float>(root2);
  return arguments;
}

LambArguments lamb_arguments(const OptimizerGroup& group, std::int64_t step) {
  LambArguments arguments = {};
  set_moments(arguments, group);
  arguments.weight_decay = static_cast<float>(group.weight_decay);
  arguments.mean_correction = static_cast<float>(1.0 / bias_correction(group, group.beta1, step));
  arguments.root_correction =
      static_cast<float>(std::sqrt(bias_correction(group, group.beta2, step)));
  return arguments;
}

AdagradArguments adagrad_arguments(const OptimizerGroup& group, double lr, std::int64_t step) {
  AdagradArguments arguments = {};
  arguments.lr = static_cast<float>(
      lr / (1.0 + static_cast<double>(update_count(group, step)) * group.lr_decay));
  arguments.weight_decay = static_cast<float>(group.weight_decay);
  arguments.eps = static_cast<float>(group.eps);
  return arguments;
}

}  // namespace mezzo::runtime
