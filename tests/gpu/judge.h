// Whether a training run is the recorded one, by the bands that were recorded with it.
#pragma once

#include "tests/gpu/check.h"

namespace mezzo::gpu {

// A recorded reference: expected.json, data, the model and PyTorch's weights after AdamW.
struct Reference {
  std::string folder;
  Json expected;
  const Json& setup() const { return expected.at("setups").at("adamw"); }
};

// Compares each curve, in units of its band: the worst of loss, of the loss's mean over ten
// micro-batches, of the gradient norm and of the weights; learning rates; the loss scale by
// PyTorch's rule; what was skipped. `start` is the folder of a run that changed no weight. Adds to
// `entry` "steps", "skipped", "of_band" {...}, "outside" [texts]; false if anything is outside.
// Throws where a file is not as it should be.
bool judge_run(const Reference& reference, const std::string& precision, const std::string& run,
               const std::string& start, Json& entry);

}  // namespace mezzo::gpu
