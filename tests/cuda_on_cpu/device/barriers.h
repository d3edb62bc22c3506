// What mutation tests know and change of the barriers that kernels come to.
#pragma once

#include "tests/cuda_on_cpu/device/execution.h"

namespace cuda_on_cpu {

bool is_removed(const Place& place);
void record_barrier(const Place& place);

}  // namespace cuda_on_cpu
