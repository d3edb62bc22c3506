// Runs the FP32 graph on samples and measures what its tensors hold.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/precision/calibration.h"

namespace mezzo::numerics {

struct CalibrateOptions {
  int threads = 1;
  DType low = DType::kFloat16;
  double mask = -1e4;  // of the policy's thresholds
  std::uint64_t most_iterations = 1'000'000;
  // Told before the first sample and after each; may be null.
  std::function<void(std::uint64_t done)> progress;
};

// The inputs of sample number `index`, one per input of the graph.
using SampleReader = std::function<StatusOr<std::vector<RuntimeValue>>(std::uint64_t index)>;

// `model` as prepare() left it. Ranges are reduced while tensors are alive, so that memory stays
// what one run needs, whatever the number of samples. Measured are FP32 tensors, constants aside;
// and how far the sums of contractions and reductions go, where they pass the range of `low` (see
// largest_sum). InvalidArgument: a sample does not fit, or holds NaN; there is none; the graph
// holds no FP32 tensor. Calibration::sources is left to the caller.
StatusOr<passes::Calibration> calibrate(const Model& model, std::uint64_t samples,
                                        const SampleReader& read, const CalibrateOptions& options);

}  // namespace mezzo::numerics
