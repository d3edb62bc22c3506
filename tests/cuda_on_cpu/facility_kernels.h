// Small kernels, right and wrong ones, for tests of the facility itself. Launched on a stream of
// the stand-in for libcudart.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace cuda_on_cpu_test {

// y[i] = x[i] + 1, one thread per element.
cudaError_t launch_add_one(const int* x, int* y, int count, cudaStream_t stream);
// y[block] = the sum of x[block][0..count), by shuffles and a barrier.
cudaError_t launch_row_sums(const float* x, float* y, int rows, int count, int threads,
                            cudaStream_t stream);
// y[i] = x[threads - 1 - i] through shared memory, with or without the barrier it needs.
cudaError_t launch_reverse(const int* x, int* y, int threads, bool with_barrier,
                           cudaStream_t stream);
// Half of the threads wait at one barrier, half at another.
cudaError_t launch_two_barriers(int threads, cudaStream_t stream);
// All threads but the first come to the barrier, which the first waits for in a warp operation.
cudaError_t launch_deadlock(int threads, cudaStream_t stream);
// y[thread] = what each warp operation gives; kWarpResults results for each of 32 lanes.
inline constexpr int kWarpResults = 8;
cudaError_t launch_warp_operations(std::uint32_t* y, cudaStream_t stream);
// The lower half of the warp and the upper one, each by itself.
cudaError_t launch_half_warps(int* y, cudaStream_t stream);
// y[0] counts the threads whose number is even, y[1] says whether all are, y[2] whether any is.
cudaError_t launch_votes(int* y, int threads, cudaStream_t stream);
// *y += 1 by every thread of every block.
cudaError_t launch_count(unsigned* y, int blocks, int threads, cudaStream_t stream);
// Writes x[offset].
cudaError_t launch_write_at(int* x, int offset, cudaStream_t stream);
// Writes behind the dynamic shared memory of `count` elements if `beyond` is 1.
cudaError_t launch_write_shared(int* y, int count, int beyond, cudaStream_t stream);
// *y = 1. For one test alone, which wants a kernel that was never launched before.
cudaError_t launch_only_here(int* y, cudaStream_t stream);
// y[n] = the n-th thread's indices and the grid's sizes, packed.
cudaError_t launch_indices(std::uint64_t* y, dim3 grid, dim3 block, cudaStream_t stream);

}  // namespace cuda_on_cpu_test
