// Some of the kernel tests and a training, under compute-sanitizer where the machine has it.
#pragma once

#include "tests/gpu/check.h"

namespace mezzo::gpu {

// {"verdict": "absent"} or {"verdict", "runs": [{"tool", "what", "verdict", "tests", ...}]}.
Json run_sanitizer(const Check& check, double end_s);

}  // namespace mezzo::gpu
