// What every .cu file includes first: CUDA's own headers or, where MEZZO_DEVICE_SHIM names one, a
// header under which the host's compiler takes the same source for ordinary C++
// (tests/cuda_on_cpu).
//
// Kernels keep to what both understand: blocks and threads of up to three dimensions, static and
// dynamic shared memory, __syncthreads and its votes, __syncwarp, warp shuffles and votes, atomics
// on global and shared memory, the types of cuda_fp16.h and cuda_bf16.h. Not: inline PTX, wmma,
// cooperative groups, textures, launches from the device, `extern __shared__` without the macro
// below. Kernels have external linkage in a named namespace and are launched by launch.h.
#pragma once

#ifdef MEZZO_DEVICE_SHIM
#include MEZZO_DEVICE_SHIM  // defines MEZZO_DYNAMIC_SHARED as well
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// Declares `name`, the block's dynamic shared memory as elements of T.
#define MEZZO_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char mezzo_dynamic_shared[]; \
  T* name = reinterpret_cast<T*>(mezzo_dynamic_shared)
#endif
