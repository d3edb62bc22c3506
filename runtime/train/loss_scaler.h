// The loss scale of mixed-precision training.
//
// The loss is multiplied by scale() before the backward pass so that small gradients stay
// representable in float16; the optimizer pass multiplies by inverse_scale(). In dynamic mode the
// scale shrinks when gradients overflow and grows again after a row of clean steps. The transitions
// equal PyTorch's GradScaler (torch/amp/grad_scaler.py: float32 scale, products in double, growth
// refused where it would overflow), followed by a clamp to [min_scale, max_scale].
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "compiler/support/status.h"
#include "kernels/formulas/loss_scale.h"

namespace mezzo::runtime {

using kernels::LossScaleMode;
using kernels::LossScalerOptions;
using kernels::LossScaleState;

// InvalidArgument naming the option: not finite, scale below the smallest normal float32 or outside
// [min, max], growth < 1, backoff outside (0, 1], interval or hysteresis < 1.
Status validate(const LossScalerOptions& options);

// Invariant: scale() is a normal float32 and its inverse is not 0, whatever update() is told.
class LossScaler {
 public:
  // A scale of 1 that never changes.
  LossScaler();
  static StatusOr<LossScaler> create(const LossScalerOptions& options);

  // The factor for the loss, constant between calls of update().
  float scale() const { return state_.scale; }
  // 1 / scale, rounded once; exact for powers of two.
  float inverse_scale() const { return kernels::inverse_of(state_.scale); }
  const LossScalerOptions& options() const { return options_; }

  // Accounts for one finished step: once per accumulation window and, with several
  // optimizers or ranks, once for all of them with the OR of their flags. A step with `found_inf`
  // was skipped in every mode. `loss_is_finite` = false says that the unscaled FP32 loss itself was
  // NaN or inf, which no scale mends; such steps are counted apart, the scale moves as PyTorch's.
  void update(bool found_inf, bool loss_is_finite = true) {
    kernels::update_loss_scale(options_, state_, found_inf, loss_is_finite);
  }

  // InvalidArgument once max_stuck_steps or max_skips is reached, saying what to try; `cause`
  // stands for "gradients hold inf or NaN" where the caller knows more.
  Status check_progress(std::string_view cause = {}) const;

  // See LossScaleState.
  std::int64_t clean_steps() const { return state_.clean_steps; }
  std::int64_t hysteresis_left() const { return state_.hysteresis_left; }
  std::int64_t skipped_steps() const { return state_.skipped_steps; }
  std::int64_t stuck_steps() const { return state_.stuck_steps; }
  std::int64_t skips_in_row() const { return state_.skips_in_row; }
  std::int64_t nonfinite_losses() const { return state_.nonfinite_losses; }

  const LossScaleState& state() const { return state_; }
  // For a state that came from state() by update_loss_scale() elsewhere, as on a device.
  void set_state(const LossScaleState& state) { state_ = state; }

  // Options and every field of the state; load() checks all of it and accepts what save() gave,
  // before or after any number of steps.
  nlohmann::json save() const;
  static StatusOr<LossScaler> load(const nlohmann::json& saved);

 private:
  explicit LossScaler(const LossScalerOptions& options);

  LossScalerOptions options_;
  LossScaleState state_;
};

std::string_view loss_scale_mode_name(LossScaleMode mode);  // "off", "static", "dynamic"

// "off", "dynamic" or "static:F" as in --loss-scale; sets mode and, for static, init_scale.
Status parse_loss_scale(std::string_view text, LossScalerOptions& options);

}  // namespace mezzo::runtime
