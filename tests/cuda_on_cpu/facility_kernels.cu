#include "tests/cuda_on_cpu/facility_kernels.h"

#include "tests/cuda_on_cpu/shim.h"

namespace cuda_on_cpu_test {

__global__ void add_one(const int* x, int* y, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) y[i] = x[i] + 1;
}

__global__ void row_sums(const float* x, float* y, int count) {
  __shared__ float partial[32];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  float sum = 0;
  for (int i = thread; i < count; i += threads) sum += x[blockIdx.x * count + i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0U, sum, step);
  if (thread % 32 == 0) partial[thread / 32] = sum;
  __syncthreads();
  if (thread >= 32) return;
  sum = thread < threads / 32 ? partial[thread] : 0;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0U, sum, step);
  if (thread == 0) y[blockIdx.x] = sum;
}

__global__ void reverse(const int* x, int* y, bool with_barrier) {
  MEZZO_DYNAMIC_SHARED(int, shared);
  shared[threadIdx.x] = x[threadIdx.x];
  if (with_barrier) __syncthreads();
  y[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

__global__ void two_barriers() {
  if (threadIdx.x < blockDim.x / 2) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void deadlock() {
  if (threadIdx.x == 0) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

__global__ void warp_operations(std::uint32_t* y) {
  const unsigned lane = threadIdx.x;
  std::uint32_t* const mine = y + lane * kWarpResults;
  mine[0] = __shfl_sync(~0U, lane * 10, 5);
  mine[1] = __shfl_sync(~0U, lane * 10, 3, 8);
  mine[2] = __shfl_xor_sync(~0U, lane * 10, 1);
  mine[3] = __shfl_down_sync(~0U, lane * 10, 2);
  mine[4] = __shfl_up_sync(~0U, lane * 10, 1, 16);
  mine[5] = __ballot_sync(~0U, lane % 3 == 0);
  mine[6] = static_cast<std::uint32_t>(__any_sync(~0U, lane == 31));
  mine[7] = static_cast<std::uint32_t>(__all_sync(~0U, lane < 31));
}

__global__ void half_warps(int* y) {
  const bool low = threadIdx.x < 16;
  int value = static_cast<int>(threadIdx.x);
  if (low) {
    for (int step = 8; step > 0; step /= 2) value += __shfl_xor_sync(0xffffU, value, step);
  } else {
    for (int step = 8; step > 0; step /= 2) value += __shfl_xor_sync(0xffff0000U, value, step);
  }
  y[threadIdx.x] = value;
}

__global__ void votes(int* y) {
  const int even = threadIdx.x % 2 == 0 ? 1 : 0;
  const int count = __syncthreads_count(even);
  const int all = __syncthreads_and(even);
  const int any = __syncthreads_or(even);
  if (threadIdx.x != 0) return;
  y[0] = count;
  y[1] = all;
  y[2] = any;
}

__global__ void count(unsigned* y) { atomicAdd(y, 1U); }

__global__ void write_at(int* x, int offset) { x[offset] = 1; }

__global__ void write_shared(int* y, int count, int beyond) {
  MEZZO_DYNAMIC_SHARED(int, shared);
  shared[count - 1 + beyond] = 7;
  y[0] = shared[count - 1];
}

__global__ void only_here(int* y) { *y = 1; }

__global__ void indices(std::uint64_t* y) {
  const std::uint64_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const std::uint64_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const std::uint64_t threads = blockDim.x * blockDim.y * blockDim.z;
  y[block * threads + thread] = block << 32 | thread;
}

namespace {

template <auto kKernel>
struct Launcher;

template <typename... Parameters, void (*kKernel)(Parameters...)>
struct Launcher<kKernel> {
  static cudaError_t run(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
                         Parameters... values) {
    MEZZO_REGISTER_KERNEL(kKernel);
    void* arguments[] = {const_cast<void*>(static_cast<const void*>(&values))..., nullptr};
    return cudaLaunchKernel(reinterpret_cast<const void*>(kKernel), grid, block, arguments, shared,
                            stream);
  }
};

}  // namespace

cudaError_t launch_add_one(const int* x, int* y, int count, cudaStream_t stream) {
  return Launcher<add_one>::run((count + 63) / 64, 64, 0, stream, x, y, count);
}
cudaError_t launch_row_sums(const float* x, float* y, int rows, int count, int threads,
                            cudaStream_t stream) {
  return Launcher<row_sums>::run(rows, threads, 0, stream, x, y, count);
}
cudaError_t launch_reverse(const int* x, int* y, int threads, bool with_barrier,
                           cudaStream_t stream) {
  return Launcher<reverse>::run(1, threads, sizeof(int) * static_cast<unsigned>(threads), stream, x,
                                y, with_barrier);
}
cudaError_t launch_two_barriers(int threads, cudaStream_t stream) {
  return Launcher<two_barriers>::run(1, threads, 0, stream);
}
cudaError_t launch_deadlock(int threads, cudaStream_t stream) {
  return Launcher<deadlock>::run(1, threads, 0, stream);
}
cudaError_t launch_warp_operations(std::uint32_t* y, cudaStream_t stream) {
  return Launcher<warp_operations>::run(1, 32, 0, stream, y);
}
cudaError_t launch_half_warps(int* y, cudaStream_t stream) {
  return Launcher<half_warps>::run(1, 32, 0, stream, y);
}
cudaError_t launch_votes(int* y, int threads, cudaStream_t stream) {
  return Launcher<votes>::run(1, threads, 0, stream, y);
}
cudaError_t launch_count(unsigned* y, int blocks, int threads, cudaStream_t stream) {
  return Launcher<count>::run(blocks, threads, 0, stream, y);
}
cudaError_t launch_write_at(int* x, int offset, cudaStream_t stream) {
  return Launcher<write_at>::run(1, 1, 0, stream, x, offset);
}
cudaError_t launch_write_shared(int* y, int count, int beyond, cudaStream_t stream) {
  return Launcher<write_shared>::run(1, 1, sizeof(int) * static_cast<unsigned>(count), stream, y,
                                     count, beyond);
}
cudaError_t launch_only_here(int* y, cudaStream_t stream) {
  return Launcher<only_here>::run(1, 1, 0, stream, y);
}
cudaError_t launch_indices(std::uint64_t* y, dim3 grid, dim3 block, cudaStream_t stream) {
  return Launcher<indices>::run(grid, block, 0, stream, y);
}

}  // namespace cuda_on_cpu_test
