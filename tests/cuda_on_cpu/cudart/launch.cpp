// Launching kernels, those of code compiled by nvcc included.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "tests/cuda_on_cpu/cudart/state.h"
#include "tests/cuda_on_cpu/device/grid.h"

namespace cuda_on_cpu {
namespace {

constexpr std::size_t kMostThreads = 1024;
constexpr std::size_t kMostShared = 48 << 10;            // unless the kernel asks for more
constexpr std::size_t kMostSharedOnRequest = 227 << 10;  // compute capability 9.0

struct HostKernels {
  void* library = nullptr;
  std::map<const void*, const void*> by_stub;      // nvcc's stub -> kernel compiled for the host
  std::map<const void*, std::string> missing;      // stub -> name
  std::map<const void*, std::size_t> most_shared;  // by what cudaFuncSetAttribute said
  std::set<const void*> loaded;                    // launched before, not only recorded
};

HostKernels& host_kernels() {
  static auto* const all = new HostKernels;
  return *all;
}

// Parameters of one launch, kept until it is done.
class Parameters {
 public:
  Parameters(const KernelInfo& kernel, void** values) {
    for (std::size_t i = 0; i < kernel.parameter_sizes.size(); ++i) {
      const std::size_t bytes = kernel.parameter_sizes[i];
      auto& room = rooms_.emplace_back((bytes + sizeof(Room) - 1) / sizeof(Room));
      std::memcpy(room.data(), values[i], bytes);
    }
    for (auto& room : rooms_) addresses_.push_back(room.data());
  }
  void** addresses() { return addresses_.data(); }

 private:
  struct alignas(16) Room {
    unsigned char bytes[16];
  };
  std::vector<std::vector<Room>> rooms_;
  std::vector<void*> addresses_;
};

const KernelInfo* resolve(const void* function) {
  if (const KernelInfo* const kernel = find_kernel(function)) return kernel;
  const HostKernels& all = host_kernels();
  const auto found = all.by_stub.find(function);
  if (found != all.by_stub.end()) return find_kernel(found->second);
  const auto missing = all.missing.find(function);
  std::fprintf(stderr, "cuda_on_cpu: no host version of kernel %s\n",
               missing == all.missing.end() ? "(unknown)" : missing->second.c_str());
  return nullptr;
}

bool is_shape_valid(const void* function, dim3 grid, dim3 block, std::size_t shared) {
  const auto& most = host_kernels().most_shared;
  const auto found = most.find(function);
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffU && grid.y <= 65535 &&
         grid.z <= 65535 && block.x > 0 && block.y > 0 && block.z > 0 && block.x <= kMostThreads &&
         block.y <= kMostThreads && block.z <= 64 &&
         std::size_t{block.x} * block.y * block.z <= kMostThreads &&
         shared <= (found == most.end() ? kMostShared : found->second);
}

// The first launch of a kernel loads its code (CUDA_MODULE_LOADING is LAZY by default), which may
// allocate and wait: not what one wants in the midst of a recording.
bool is_loaded(const CUstream_st& stream, const void* function) {
  auto& loaded = host_kernels().loaded;
  if (stream.capture == nullptr) loaded.insert(function);
  return loaded.count(function) != 0;
}

void run(Runtime& runtime, const KernelInfo& kernel, dim3 grid, dim3 block, void** parameters,
         std::size_t shared) {
  Launch launch{&kernel, grid, block, parameters, shared, {}};
  ++runtime.counts.kernels;
  if (runtime.thread_order != 0) launch.order.seed = runtime.thread_order + runtime.counts.kernels;
  const std::string fault = run_grid(launch);
  if (fault.empty()) return;
  runtime.fault = kernel.name + ": " + fault;
  std::fprintf(stderr, "cuda_on_cpu: %s\n", runtime.fault.c_str());
}

}  // namespace
}  // namespace cuda_on_cpu

using cuda_on_cpu::Call;

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** values,
                             std::size_t shared, cudaStream_t handle) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  const cuda_on_cpu::KernelInfo* const kernel = cuda_on_cpu::resolve(function);
  if (kernel == nullptr) return call.done(cudaErrorInvalidDeviceFunction);
  if (!cuda_on_cpu::is_shape_valid(function, grid, block, shared)) {
    return call.done(cudaErrorInvalidConfiguration);
  }
  if (!cuda_on_cpu::is_loaded(*stream, function)) {
    stream->capture->invalid = true;
    return call.done(cudaErrorStreamCaptureUnsupported);
  }
  const auto parameters = std::make_shared<cuda_on_cpu::Parameters>(*kernel, values);
  auto& runtime = call.runtime;
  return call.done(call->enqueue(stream, {kernel->name, [=, &runtime] {
                                            cuda_on_cpu::run(runtime, *kernel, grid, block,
                                                             parameters->addresses(), shared);
                                          }}));
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return call.done();
  if (value < 0 || static_cast<std::size_t>(value) > cuda_on_cpu::kMostSharedOnRequest) {
    return call.done(cudaErrorInvalidValue);
  }
  cuda_on_cpu::host_kernels().most_shared[function] = static_cast<std::size_t>(value);
  return call.done();
}

// Threads alone limit it: registers are not known.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                   int threads, std::size_t shared,
                                                                   unsigned) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (threads <= 0) return call.done(cudaErrorInvalidValue);
  const std::size_t by_shared = shared == 0 ? 32 : cuda_on_cpu::kMostSharedOnRequest / shared;
  *blocks =
      static_cast<int>(std::min<std::size_t>(2048 / static_cast<unsigned>(threads), by_shared));
  return call.done();
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                0);
}

// --- what code compiled by nvcc calls; CUDA_ON_CPU_KERNELS names the library with its kernels ---

extern "C" {

struct LaunchConfiguration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
static thread_local std::vector<LaunchConfiguration> configurations;

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  auto& library = cuda_on_cpu::host_kernels().library;
  const char* const path = std::getenv("CUDA_ON_CPU_KERNELS");
  if (library == nullptr && path != nullptr) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) std::fprintf(stderr, "cuda_on_cpu: %s\n", dlerror());
  }
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  const Call call;
  auto& all = cuda_on_cpu::host_kernels();
  const void* const kernel = all.library == nullptr ? nullptr : dlsym(all.library, name);
  if (kernel != nullptr) {
    all.by_stub[stub] = kernel;
  } else {
    all.missing[stub] = name;
  }
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
char __cudaInitModule(void**) { return 0; }

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                     cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  const LaunchConfiguration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** values,
                               std::size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(static_cast<const void*>(kernel), grid, block, values, shared, stream);
}
}
