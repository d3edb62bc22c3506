// What training on a device carries from step to step besides tensors, and what it tells of each.
#pragma once

#include <cstdint>

#include "kernels/formulas/loss_scale.h"
#include "kernels/formulas/training_step.h"
#include "kernels/kernel.h"

namespace mezzo::kernels {

// An optimizer skips as a whole; StepRecord::overflowed has a bit for each.
inline constexpr int kMostOptimizers = 64;

struct TrainingProgress {
  LossScaleState scale;
  std::int64_t step = 0;  // taken, skipped ones included
  std::uint64_t seed = 0;
  std::uint64_t draws = 0;  // random counter: one per micro-batch
  std::int64_t applied_steps[kMostOptimizers] = {};
};

struct StepRecord {
  std::int64_t step = 0;
  float loss = 0.0F;        // unscaled, mean over the micro-batches
  float loss_scale = 1.0F;  // that the step was taken with
  double grad_norm = 0.0;   // unscaled, before clipping, of the optimizers that step
  double lr = 0.0;
  std::uint64_t overflowed = 0;  // bit i: optimizer i found inf or NaN in its gradients
  StepDecision decision;
  DeviceFault fault;
  TrainingProgress after;
};

}  // namespace mezzo::kernels
