// What the check runs on: the card, its driver, CUDA's libraries and what came along.
#pragma once

#include "tests/gpu/check.h"

namespace mezzo::gpu {

// {"pack": what tools/gpu_check built, "devices": as `mezzo devices` says, "nvidia_smi",
//  "libraries": which file the loader takes for each of CUDA's, "processors", "work"}
// and, where no device can be used, "error" that says what is missing.
Json describe_machine(const Check& check);

}  // namespace mezzo::gpu
