// Speed and memory of training steps of the networks of models/benchmark.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/gpu/references.h"

namespace mezzo::gpu {

// Per network: batch, FLOPs of a step, and per precision median ms of a step, achieved TFLOP/s,
// activation and total bytes; ratios of both 16-bit types to FP32; the same of PyTorch where Python
// has it. What there was no time for is left out.
nlohmann::json check_networks(const Check& check, bool with_torch);

}  // namespace mezzo::gpu
