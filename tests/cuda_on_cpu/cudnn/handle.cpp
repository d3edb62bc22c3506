// Handles, versions and messages.
#include "tests/cuda_on_cpu/cudnn/handle.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/cuda_on_cpu/cudnn/graph.h"
#include "tests/cuda_on_cpu/stand_in.h"

namespace cudnn_on_cpu {
namespace {

thread_local std::string last_error;

}  // namespace

void set_last_error(std::string message) { last_error = std::move(message); }

}  // namespace cudnn_on_cpu

extern "C" {

// CUDA_ON_CPU_CUDNN_VERSION: another one, as the frontend treats versions differently.
size_t cudnnGetVersion() {
  const char* const text = std::getenv("CUDA_ON_CPU_CUDNN_VERSION");
  return text == nullptr ? CUDNN_VERSION : std::strtoull(text, nullptr, 10);
}
size_t cudnnGetCudartVersion() { return 13000; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (cuda_on_cpu::cuda_on_cpu_breaks_capture()) return CUDNN_STATUS_NOT_INITIALIZED;
  if (cuda_on_cpu::cuda_on_cpu_fails(__func__)) return CUDNN_STATUS_INTERNAL_ERROR;
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (cuda_on_cpu::cuda_on_cpu_fails(__func__)) return CUDNN_STATUS_INTERNAL_ERROR;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_NULL_POINTER: return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER:
      return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_INTERNAL_ERROR";
  }
}

void cudnnGetLastErrorString(char* message, size_t bytes) {
  if (bytes == 0) return;
  const std::size_t count = std::min(bytes - 1, cudnn_on_cpu::last_error.size());
  std::memcpy(message, cudnn_on_cpu::last_error.data(), count);
  message[count] = '\0';
}

}  // extern "C"
