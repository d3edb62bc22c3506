// The loss scale of mixed-precision training.
//
// The loss is multiplied by scale() before the backward pass so that small gradients stay
// representable in float16; the optimizer pass multiplies by inverse_scale(). In dynamic mode the
// scale shrinks when gradients overflow and grows again after a row of clean steps. The transitions
// equal PyTorch's GradScaler (torch/amp/grad_scaler.py: float32 scale, products in double, growth
// refused where it would overflow), followed by a clamp to [min_scale, max_scale].
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "compiler/support/status.h"

namespace mezzo::runtime {

enum class LossScaleMode { kOff, kStatic, kDynamic };

struct LossScalerOptions {
  LossScaleMode mode = LossScaleMode::kDynamic;
  double init_scale = 65536.0;  // the factor itself in static mode; not used when off
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // clean steps in a row before the scale grows
  double min_scale = 1.0;
  double max_scale = 65536.0;  // may be infinity: then only float32's range limits growth
  // Overflowed steps in a row before the scale shrinks; 1 shrinks at the first. A clean step starts
  // the count anew. (NVIDIA Apex counts so; PyTorch has no such option and is as 1.)
  std::int64_t hysteresis = 1;
  // check_progress() reports an error after this many skipped steps in a row at a scale that cannot
  // shrink further: training is not going on. 0 never does.
  std::int64_t max_stuck_steps = 100;
  // The same after this many skipped steps in a row at any scale. 0 never does.
  std::int64_t max_skips = 0;
};

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
  float scale() const { return scale_; }
  // 1 / scale, rounded once; exact for powers of two.
  float inverse_scale() const;
  const LossScalerOptions& options() const { return options_; }

  // Accounts for one finished step: once per accumulation window and, with several
  // optimizers or ranks, once for all of them with the OR of their flags. A step with `found_inf`
  // was skipped in every mode. `loss_is_finite` = false says that the unscaled FP32 loss itself was
  // NaN or inf, which no scale mends; such steps are counted apart, the scale moves as PyTorch's.
  void update(bool found_inf, bool loss_is_finite = true);

  // InvalidArgument once max_stuck_steps or max_skips is reached, saying what to try; `cause`
  // stands for "gradients hold inf or NaN" where the caller knows more.
  Status check_progress(std::string_view cause = {}) const;

  std::int64_t clean_steps() const { return clean_steps_; }          // in a row, since growth
  std::int64_t hysteresis_left() const { return hysteresis_left_; }  // overflows before shrinking
  std::int64_t skipped_steps() const { return skipped_steps_; }      // in total
  std::int64_t stuck_steps() const { return stuck_steps_; }  // skipped in a row at the lowest scale
  std::int64_t skips_in_row() const { return skips_in_row_; }
  std::int64_t nonfinite_losses() const { return nonfinite_losses_; }  // in total

  // Options and every field of the state; load() checks all of it and accepts what save() gave,
  // before or after any number of steps.
  nlohmann::json save() const;
  static StatusOr<LossScaler> load(const nlohmann::json& saved);

 private:
  explicit LossScaler(const LossScalerOptions& options);
  void back_off();
  void grow();

  LossScalerOptions options_;
  float scale_ = 1.0F;
  std::int64_t clean_steps_ = 0;
  std::int64_t hysteresis_left_ = 1;
  std::int64_t skipped_steps_ = 0;
  std::int64_t stuck_steps_ = 0;
  std::int64_t skips_in_row_ = 0;
  std::int64_t nonfinite_losses_ = 0;
};

std::string_view loss_scale_mode_name(LossScaleMode mode);  // "off", "static", "dynamic"

// "off", "dynamic" or "static:F" as in --loss-scale; sets mode and, for static, init_scale.
Status parse_loss_scale(std::string_view text, LossScalerOptions& options);

}  // namespace mezzo::runtime
