// Under this header the host's compiler takes a .cu file of kernels/cuda for ordinary C++:
// MEZZO_DEVICE_SHIM names it (kernels/cuda/device_code.h). Types and conversions are CUDA's own
// headers; this adds what nvcc has built in.
#pragma once

#include <cuda_runtime.h>
//
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/cuda_on_cpu/device/execution.h"
#include "tests/cuda_on_cpu/shim_atomic.h"
#include "tests/cuda_on_cpu/shim_math.h"
#include "tests/cuda_on_cpu/shim_sync.h"

// All threads of a block run in one thread of the operating system.
#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

#define threadIdx (::cuda_on_cpu::cuda_on_cpu_thread->index)
#define blockIdx (::cuda_on_cpu::cuda_on_cpu_thread->block->index)
#define blockDim (::cuda_on_cpu::cuda_on_cpu_thread->block->dims)
#define gridDim (::cuda_on_cpu::cuda_on_cpu_thread->block->grid)
#define warpSize (::cuda_on_cpu::kWarpSize)

#define MEZZO_DYNAMIC_SHARED(T, name) \
  T* name = static_cast<T*>(::cuda_on_cpu::cuda_on_cpu_thread->block->dynamic_shared)

// In a function that launches the kernel.
#define MEZZO_REGISTER_KERNEL(kernel) \
  static_cast<void>(::cuda_on_cpu::Registration<kernel>::registered)

// In launch.h.
#define MEZZO_MOST_BLOCKS ::cuda_on_cpu::cuda_on_cpu_most_blocks()
