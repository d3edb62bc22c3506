#include "runtime/cuda/counted_calls.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <atomic>

namespace mezzo::runtime::cuda {
namespace {

using Counter = std::atomic<std::uint64_t>;
constinit Counter launches = 0, copies = 0, waits = 0;

// Several devices may be used by a thread each; nobody orders anything by a count.
void count(Counter& counter) { counter.fetch_add(1, std::memory_order_relaxed); }
std::uint64_t read(const Counter& counter) { return counter.load(std::memory_order_relaxed); }

}  // namespace

DeviceCounts counted_calls() { return {read(launches), read(copies), read(waits)}; }

// The linker's names: with --wrap=f, a call of f arrives at the function of that name with the
// prefix __wrap_, and the one with __real_ is the library's.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

cudaError_t __real_cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t);
cudaError_t __wrap_cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                    std::size_t shared_bytes, cudaStream_t stream) {
  count(launches);
  return __real_cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t __real_cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t __wrap_cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  count(launches);
  return __real_cudaGraphLaunch(graph, stream);
}

cublasStatus_t __real_cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*,
                                     const void*, cublasLtMatrixLayout_t, const void*,
                                     cublasLtMatrixLayout_t, const void*, const void*,
                                     cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t,
                                     const cublasLtMatmulAlgo_t*, void*, std::size_t, cudaStream_t);
cublasStatus_t __wrap_cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                     const void* alpha, const void* a,
                                     cublasLtMatrixLayout_t a_layout, const void* b,
                                     cublasLtMatrixLayout_t b_layout, const void* beta,
                                     const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                                     cublasLtMatrixLayout_t d_layout,
                                     const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                     std::size_t workspace_bytes, cudaStream_t stream) {
  count(launches);
  return __real_cublasLtMatmul(handle, operation, alpha, a, a_layout, b, b_layout, beta, c,
                               c_layout, d, d_layout, algorithm, workspace, workspace_bytes,
                               stream);
}

cudnnStatus_t __real_cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t,
                                         cudnnBackendDescriptor_t);
cudnnStatus_t __wrap_cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                         cudnnBackendDescriptor_t variables) {
  count(launches);
  return __real_cudnnBackendExecute(handle, plan, variables);
}

cudaError_t __real_cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t __wrap_cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t stream) {
  count(copies);
  return __real_cudaMemcpyAsync(to, from, bytes, kind, stream);
}

cudaError_t __real_cudaMemsetAsync(void*, int, std::size_t, cudaStream_t);
cudaError_t __wrap_cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  count(copies);
  return __real_cudaMemsetAsync(to, value, bytes, stream);
}

cudaError_t __real_cudaMemset(void*, int, std::size_t);
cudaError_t __wrap_cudaMemset(void* to, int value, std::size_t bytes) {
  count(copies);
  return __real_cudaMemset(to, value, bytes);
}

cudaError_t __real_cudaMemcpy(void*, const void*, std::size_t, cudaMemcpyKind);
cudaError_t __wrap_cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  count(copies);
  count(waits);
  return __real_cudaMemcpy(to, from, bytes, kind);
}

cudaError_t __real_cudaStreamSynchronize(cudaStream_t);
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream) {
  count(waits);
  return __real_cudaStreamSynchronize(stream);
}

cudaError_t __real_cudaEventSynchronize(cudaEvent_t);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event) {
  count(waits);
  return __real_cudaEventSynchronize(event);
}

cudaError_t __real_cudaDeviceSynchronize();
cudaError_t __wrap_cudaDeviceSynchronize() {
  count(waits);
  return __real_cudaDeviceSynchronize();
}

// Giving memory back waits for all that is under way.
cudaError_t __real_cudaFree(void*);
cudaError_t __wrap_cudaFree(void* memory) {
  if (memory != nullptr) count(waits);
  return __real_cudaFree(memory);
}

cudaError_t __real_cudaFreeHost(void*);
cudaError_t __wrap_cudaFreeHost(void* memory) {
  if (memory != nullptr) count(waits);
  return __real_cudaFreeHost(memory);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

}  // namespace mezzo::runtime::cuda
