// cublasLtMatmul, handles and names.
#include <cstdint>

#include "tests/cuda_on_cpu/cublaslt/problem.h"
#include "tests/cuda_on_cpu/stand_in.h"

namespace cublaslt_on_cpu {
namespace {

constexpr std::uintptr_t kWorkspaceAlignment = 256;  // "Must be 256B aligned" (cublasLtMatmul)

bool is_aligned(const void* at, std::uintptr_t alignment) {
  return reinterpret_cast<std::uintptr_t>(at) % alignment == 0;
}

bool is_on_device(const void* at, std::size_t bytes) {
  return at != nullptr && cuda_on_cpu::cuda_on_cpu_is_device_memory(at, bytes);
}

// Buffers as large as the layouts say, on the device, aligned as the algorithm needs it.
cublasStatus_t check(const Problem& problem, const Algorithm& algorithm, const Buffers& buffers,
                     std::size_t workspace_bytes) {
  if (!is_on_device(buffers.a, problem.a.extent_bytes()) ||
      !is_on_device(buffers.b, problem.b.extent_bytes()) ||
      !is_on_device(buffers.d, problem.d.extent_bytes()) ||
      (buffers.beta != 0.0 && !is_on_device(buffers.c, problem.c.extent_bytes()))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Operation& operation = problem.operation;
  for (const void* at :
       {buffers.a, buffers.b, static_cast<const void*>(buffers.d),
        static_cast<const void*>(operation.bias), static_cast<const void*>(operation.aux)}) {
    if (at != nullptr && !is_aligned(at, algorithm.alignment)) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const std::size_t bytes = problem.d.element_bytes();
  if (operation.bias != nullptr) {
    const std::size_t elems =
        operation.epilogue == CUBLASLT_EPILOGUE_BGRADB ? problem.n() : problem.m();
    if (!is_on_device(operation.bias, elems * bytes)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (operation.aux != nullptr) {
    const std::size_t elems =
        (problem.n() - 1) * static_cast<std::size_t>(operation.aux_leading) + problem.m();
    if (!is_on_device(operation.aux, elems * bytes)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::size_t needed = algorithm.workspace_bytes(problem);
  if (needed == 0) return CUBLAS_STATUS_SUCCESS;
  if (needed > workspace_bytes || !is_on_device(buffers.workspace, needed) ||
      !is_aligned(buffers.workspace, kWorkspaceAlignment)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

double scalar(const void* at, cudaDataType_t type) { return load(at, type, 0); }

}  // namespace
}  // namespace cublaslt_on_cpu

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (cuda_on_cpu::cuda_on_cpu_fails(__func__)) return CUBLAS_STATUS_INTERNAL_ERROR;
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (cuda_on_cpu::cuda_on_cpu_breaks_capture()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new char());
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* bits,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (cuda_on_cpu::cuda_on_cpu_fails(__func__)) return CUBLAS_STATUS_INTERNAL_ERROR;
  using namespace cublaslt_on_cpu;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Problem problem = {*opened(desc), *opened(a_layout), *opened(b_layout), *opened(c_layout),
                           *opened(d_layout)};
  if (const cublasStatus_t status = check(problem); status != CUBLAS_STATUS_SUCCESS) return status;
  Algorithm algorithm;
  if (bits != nullptr && (!unpack(*bits, algorithm) || algorithm.types != types_of(problem)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const cudaDataType_t scale = problem.operation.scale;
  const Buffers buffers = {a, b, c, d, workspace, scalar(alpha, scale), scalar(beta, scale)};
  const cublasStatus_t status = check(problem, algorithm, buffers, workspace_bytes);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const cudaError_t error = cuda_on_cpu::enqueue(
      stream, "cublasLtMatmul",
      [problem, algorithm, buffers] { multiply(problem, algorithm, buffers); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
