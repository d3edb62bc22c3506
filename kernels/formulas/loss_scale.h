// The transitions of the loss scale: see runtime/train/loss_scaler.h, which documents them.
#pragma once

#include <cfloat>
#include <cstdint>

#include "kernels/formulas/host_device.h"

namespace mezzo::kernels {

enum class LossScaleMode : std::int32_t { kOff, kStatic, kDynamic };

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
  // Training is not going on after this many skipped steps in a row at a scale that cannot shrink
  // further. 0 never says so.
  std::int64_t max_stuck_steps = 100;
  // The same after this many skipped steps in a row at any scale. 0 never does.
  std::int64_t max_skips = 0;
};

// Invariant: `scale` is a normal float32 and its inverse is not 0.
struct LossScaleState {
  float scale = 1.0F;
  std::int64_t clean_steps = 0;      // in a row, since growth
  std::int64_t hysteresis_left = 1;  // overflows before shrinking
  std::int64_t skipped_steps = 0;    // in total
  std::int64_t stuck_steps = 0;      // skipped in a row at the lowest scale
  std::int64_t skips_in_row = 0;
  std::int64_t nonfinite_losses = 0;  // in total
};

// 1 / scale, rounded once; exact for powers of two.
MEZZO_HD inline float inverse_of(float scale) {
  return static_cast<float>(1.0 / static_cast<double>(scale));
}

MEZZO_HD inline void back_off(const LossScalerOptions& options, LossScaleState& state) {
  if (--state.hysteresis_left > 0) return;
  state.hysteresis_left = 0;
  const double shrunk = static_cast<double>(state.scale) * options.backoff_factor;
  state.scale = static_cast<float>(shrunk < options.min_scale ? options.min_scale : shrunk);
}

MEZZO_HD inline void grow(const LossScalerOptions& options, LossScaleState& state) {
  const double grown = static_cast<double>(state.scale) * options.growth_factor;
  if (grown <= static_cast<double>(FLT_MAX)) {  // GradScaler too refuses growth beyond float32
    state.scale = static_cast<float>(options.max_scale < grown ? options.max_scale : grown);
  }
}

// Accounts for one finished step, skipped if `found_inf`.
MEZZO_HD inline void update_loss_scale(const LossScalerOptions& options, LossScaleState& state,
                                       bool found_inf, bool loss_is_finite) {
  const bool dynamic = options.mode == LossScaleMode::kDynamic;
  if (!loss_is_finite) ++state.nonfinite_losses;
  if (found_inf) {
    const float before = state.scale;
    ++state.skipped_steps;
    ++state.skips_in_row;
    state.clean_steps = 0;
    if (dynamic) back_off(options, state);
    const bool waits = dynamic && state.hysteresis_left > 0;
    state.stuck_steps = state.scale == before && !waits ? state.stuck_steps + 1 : 0;
    return;
  }
  state.stuck_steps = 0;
  state.skips_in_row = 0;
  state.hysteresis_left = options.hysteresis;
  if (!dynamic) return;
  if (++state.clean_steps == options.growth_interval) {
    state.clean_steps = 0;
    grow(options, state);
  }
}

MEZZO_HD inline bool is_stuck(const LossScalerOptions& options, const LossScaleState& state) {
  return options.max_stuck_steps > 0 && state.stuck_steps >= options.max_stuck_steps;
}
MEZZO_HD inline bool has_too_many_skips(const LossScalerOptions& options,
                                        const LossScaleState& state) {
  return options.max_skips > 0 && state.skips_in_row >= options.max_skips;
}

}  // namespace mezzo::kernels
