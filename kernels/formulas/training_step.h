// What becomes of a training step once its loss and gradients are known.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/formulas/host_device.h"
#include "kernels/formulas/loss_scale.h"

namespace mezzo::kernels {

enum class StepVerdict : std::int32_t {
  kGoOn,
  kAbort,       // an overflow or a loss that is not finite, where the user asked to stop for them
  kNoProgress,  // too many skipped steps: LossScaler::check_progress
  kFault,       // a wrong value in the data; of a device alone, where no call tells it
  kHalted,      // an earlier step had a verdict: this one changed nothing
};

struct StepDecision {
  bool skipped = false;       // by every optimizer
  bool keeps_states = false;  // running statistics move on
  StepVerdict verdict = StepVerdict::kGoOn;
};

// The seed and the number of micro-batches before this one, mixed: what random masks are made from.
MEZZO_HD inline std::int64_t random_counter_of(std::uint64_t seed, std::uint64_t draws) {
  return static_cast<std::int64_t>(seed * 0x9E3779B97F4A7C15U + draws);
}

// `overflowed` has a bit for each of the `optimizers`: inf or NaN in its own gradients. Moves the
// loss scale on.
MEZZO_HD inline StepDecision decide_step(const LossScalerOptions& options, LossScaleState& scale,
                                         std::uint64_t overflowed, int optimizers, float loss,
                                         bool abort_on_overflow) {
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - optimizers);
  const bool overflow = overflowed != 0;
  const bool finite = std::isfinite(loss);
  StepDecision decision;
  const bool abort = abort_on_overflow && (overflow || !finite);
  decision.skipped = abort || overflowed == all;
  decision.keeps_states = !abort && !overflow;
  if (abort) decision.verdict = StepVerdict::kAbort;
  update_loss_scale(options, scale, overflow || abort, finite);
  if (!abort && (is_stuck(options, scale) || has_too_many_skips(options, scale)))
    decision.verdict = StepVerdict::kNoProgress;
  return decision;
}

}  // namespace mezzo::kernels
