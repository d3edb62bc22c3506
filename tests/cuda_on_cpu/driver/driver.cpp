// A libcuda under which the real cuDNN builds its plans where there is no driver: code that it
// compiled can be loaded, and fits a device. All else fails as the toolkit's own stub does. Only
// the functions that cuDNN 9.19 looks up are here. For dnn_library_test.
//
// No header of CUDA: what is not looked at of the arguments is not named.
#include <dlfcn.h>

#include <cstdint>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotFound = 500;  // CUDA_ERROR_NOT_FOUND
constexpr int kNoDriver = 34;   // CUDA_ERROR_STUB_LIBRARY
constexpr int kDriver = 13000;  // CUDA 13.0
constexpr int kBlocks = 2;      // per multiprocessor
constexpr int kClusters = 66;   // of 132 multiprocessors

char object[64];  // what handles point to
int hand_out(void** handle) {
  *handle = object;
  return kSuccess;
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = kDriver;
  return kSuccess;
}
int cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR_STUB_LIBRARY";
  return kSuccess;
}
int cuGetErrorString(int, const char** text) {
  *text = "there is no driver";
  return kSuccess;
}
int cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int* status) {
  *function = dlsym(RTLD_DEFAULT, name);
  if (*function == nullptr) {
    static void* const self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    *function = dlsym(self, name);
  }
  if (status != nullptr) *status = *function == nullptr ? 1 : 0;
  return *function == nullptr ? kNotFound : kSuccess;
}
int cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

int cuCtxGetCurrent(void** context) { return hand_out(context); }
int cuLibraryLoadData(void** library) { return hand_out(library); }
int cuLibraryGetKernel(void** kernel) { return hand_out(kernel); }
int cuModuleLoadData(void** module) { return hand_out(module); }
int cuModuleLoadDataEx(void** module) { return hand_out(module); }
int cuModuleGetFunction(void** function) { return hand_out(function); }
int cuLibraryUnload() { return kSuccess; }
int cuFuncSetAttribute() { return kSuccess; }
int cuKernelSetAttribute() { return kSuccess; }
int cuFuncGetAttribute(int* value) {
  *value = 0;
  return kSuccess;
}
int cuKernelGetAttribute(int* value) {
  *value = 0;
  return kSuccess;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks) {
  *blocks = kBlocks;
  return kSuccess;
}
int cuOccupancyMaxActiveClusters(int* clusters) {
  *clusters = kClusters;
  return kSuccess;
}
int cuTensorMapEncodeTiled() { return kSuccess; }
int cuTensorMapEncodeIm2col() { return kSuccess; }

int cuInit() { return kNoDriver; }
int cuCtxGetDevice() { return kNoDriver; }
int cuCtxGetLimit() { return kNoDriver; }
int cuCtxPopCurrent() { return kNoDriver; }
int cuCtxPushCurrent() { return kNoDriver; }
int cuDeviceGet() { return kNoDriver; }
int cuDeviceGetAttribute() { return kNoDriver; }
int cuDeviceGetCount() { return kNoDriver; }
int cuDevicePrimaryCtxRelease() { return kNoDriver; }
int cuDevicePrimaryCtxReset() { return kNoDriver; }
int cuDevicePrimaryCtxRetain() { return kNoDriver; }
int cuLaunchCooperativeKernel() { return kNoDriver; }
int cuLaunchKernel() { return kNoDriver; }
int cuLaunchKernelEx() { return kNoDriver; }
int cuLibraryLoadFromFile() { return kNoDriver; }
int cuLinkAddData() { return kNoDriver; }
int cuLinkAddData_v2() { return kNoDriver; }
int cuLinkAddFile_v2() { return kNoDriver; }
int cuLinkComplete() { return kNoDriver; }
int cuLinkCreate() { return kNoDriver; }
int cuLinkCreate_v2() { return kNoDriver; }
int cuLinkDestroy() { return kNoDriver; }
int cuMemcpyDtoH_v2() { return kNoDriver; }
int cuModuleGetGlobal_v2() { return kNoDriver; }
int cuModuleLoadFatBinary() { return kNoDriver; }
int cuModuleUnload() { return kNoDriver; }
int cuOccupancyMaxPotentialClusterSize() { return kNoDriver; }
int cuStreamGetCtx() { return kNoDriver; }
int cuStreamSynchronize() { return kNoDriver; }

}  // extern "C"
