// Speed and memory of training steps of the networks of models/benchmark, beside PyTorch's.
#pragma once

#include <thread>

#include "tests/gpu/check.h"

namespace mezzo::gpu {

// {"verdict", "steps", "warmup", "networks": {NAME: {"batch", "fp32", "bf16", "fp16", "bf16_eager",
//  "bf16_profile", "ratios", "goals", "torch"}}, "torch": why there is none}
// Of a run: median ms of a step, TFLOP/s achieved, planned and reserved bytes, host time, launches,
// copies and waits per step, losses. What the time did not suffice for has the verdict "not run".
//
// The most wanted comes first: BF16 and FP32 of all networks, FP16, PyTorch in BF16, single
// launches, a profile, the rest of PyTorch. Whether the numbers were reached is told under
// "goals" and is no failure; a run that fails, a step that waits and losses that do not go together
// are.
Json run_networks(const Check& check, double end_s);

// torch.compile takes minutes, of a processor: while the GPU's results are looked at, and not yet
// its speed, this compiles into PyTorch's cache in the background. Does nothing where there is no
// torch, or so little device memory that others would be in want of it.
class TorchWarmup {
 public:
  TorchWarmup(const Check& check, double end_s);
  // Waits for the end. What came of it.
  Json finish();

 private:
  Json result_;
  std::jthread thread_;
};

}  // namespace mezzo::gpu
