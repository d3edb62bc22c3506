// Trainings of the recorded references on the GPU, from captured graphs and from single launches.
#pragma once

#include "tests/gpu/check.h"

namespace mezzo::gpu {

// {"verdict", "runs": [{"reference", "precision", "mode": "graph" | "eager", "verdict", ...}],
//  "seconds"}. Of a run: what judge_run() adds, launches, copies and waits per step, host time, and
// whether an eager run gave the same numbers as that of the graph. A graph that is not one launch,
// a step that waits and numbers that differ are failures.
Json run_references(const Check& check, double end_s);

}  // namespace mezzo::gpu
