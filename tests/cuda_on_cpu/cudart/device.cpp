// The one device there is: a compute capability that all kernels are compiled for, few
// multiprocessors so that grids stay small.
#include <cstring>

#include "tests/cuda_on_cpu/cudart/state.h"
#include "tests/cuda_on_cpu/environment.h"

using cuda_on_cpu::Call;

namespace {

constexpr int kMajor = 9, kMinor = 0;
constexpr int kMultiprocessors = 4;
constexpr int kVersion = CUDART_VERSION;

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  static const bool has_one = cuda_on_cpu::environment_number("CUDA_ON_CPU_DEVICES", 1) != 0;
  *count = has_one ? 1 : 0;
  return call.done(has_one ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  return call.done(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (device != 0) return call.done(cudaErrorInvalidDevice);
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "CUDA on a CPU");
  properties->major = kMajor;
  properties->minor = kMinor;
  properties->multiProcessorCount = kMultiprocessors;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->warpSize = 32;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->sharedMemPerMultiprocessor = 228 << 10;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->l2CacheSize = 50 << 20;
  properties->totalGlobalMem = call->device_capacity;
  properties->unifiedAddressing = 1;
  properties->concurrentKernels = 1;
  properties->asyncEngineCount = 2;
  return call.done();
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (device != 0) return call.done(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = kMajor; break;
    case cudaDevAttrComputeCapabilityMinor: *value = kMinor; break;
    case cudaDevAttrMultiProcessorCount: *value = kMultiprocessors; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 << 10; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 228 << 10; break;
    case cudaDevAttrL2CacheSize: *value = 50 << 20; break;
    default: return call.done(cudaErrorNotSupported);
  }
  return call.done();
}

cudaError_t cudaDriverGetVersion(int* version) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  *version = kVersion;
  return call.done();
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  *version = kVersion;
  return call.done();
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (device != 0) return call.done(cudaErrorInvalidDevice);
  std::strncpy(id, "0000:00:00.0", static_cast<std::size_t>(length));
  return call.done();
}

cudaError_t cudaGetLastError() {
  const Call call;
  const cudaError_t error = call->last_error;
  call->last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const Call call;
  return call->last_error;
}

// Names of the errors that the stand-in gives.
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalState: return "cudaErrorIllegalState";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureMerge: return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureUnmatched: return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureImplicit: return "cudaErrorStreamCaptureImplicit";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
    default: return "cudaErrorUnknown";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "reported by the stand-in for libcudart";
}
