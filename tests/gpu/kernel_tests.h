// Runs the kernel tests, several processes at once, each with a share of them.
#pragma once

#include "tests/gpu/check.h"

namespace mezzo::gpu {

// A test that ends its process, takes longer than 90 seconds or loses the device (after which
// nothing works in that process) is told, and the others of its share go on in another process. All
// that the time does not suffice for is listed under not_run.
//
//   {"verdict", "tests", "passed", "skipped", "failed": [{"test", "ms", "failures"}],
//    "crashed": [{"test", "why"}], "too_long": [the same], "not_run": [names], "rows", "rows_run",
//    "rows_not_run": [names], "processes": [that failed though no test of theirs did], "seconds"}
Json run_kernel_tests(const Check& check, double end_s);

}  // namespace mezzo::gpu
