// How a kernel on the device reports a wrong value in its data (kernels/kernel.h: DeviceFault).
#pragma once

#include <cstdint>

#include "kernels/cuda/device_code.h"
#include "kernels/kernel.h"

namespace mezzo::kernels::cuda {

// The first report of a run stays. `fault` null or step 0: nobody wants to know.
__device__ inline void report_fault(DeviceFault* fault, std::int32_t step, std::int32_t operand,
                                    std::int64_t position, std::int64_t value) {
  if (fault == nullptr || step == 0) return;
  if (atomicCAS(&fault->step, 0, step) != 0) return;
  fault->operand = operand;
  fault->position = position;
  fault->value = value;
}

}  // namespace mezzo::kernels::cuda
