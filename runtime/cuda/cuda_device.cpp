#include "runtime/cuda/cuda_device.h"

#include <cublasLt.h>
#include <cudnn_graph.h>

#include <cstring>
#include <string>

#include "compiler/support/text.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/rows.h"
#include "runtime/cuda/counted_calls.h"
#include "runtime/cuda/training.h"

namespace mezzo::runtime::cuda {
namespace {

using kernels::cuda::check;

constexpr int kLeastMajor = 7, kLeastMinor = 5;  // what the kernels are compiled for, and up

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Both libraries write 13.1.2 as 130102.
std::string long_version_text(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

class DeviceBlock : public DeviceMemory {
 public:
  DeviceBlock(void* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
  ~DeviceBlock() override { cudaFree(data_); }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  std::byte* data() const override { return static_cast<std::byte*>(data_); }
  std::uint64_t bytes() const override { return bytes_; }

 private:
  void* data_;
  std::uint64_t bytes_;
};

class PinnedBlock : public DeviceMemory {
 public:
  PinnedBlock(void* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
  ~PinnedBlock() override { cudaFreeHost(data_); }
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;
  std::byte* data() const override { return static_cast<std::byte*>(data_); }
  std::uint64_t bytes() const override { return bytes_; }

 private:
  void* data_;
  std::uint64_t bytes_;
};

class Graph : public DeviceGraph {
 public:
  explicit Graph(cudaStream_t stream) : stream_(stream) {}
  ~Graph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Status end_capture() {
    const Status ended = check("cudaStreamEndCapture", cudaStreamEndCapture(stream_, &graph_));
    if (!ended.ok()) {
      cudaGetLastError();  // libraries that look for errors of their own would find this one
      return ended;
    }
    std::size_t nodes = 0;
    MEZZO_RETURN_IF_ERROR(check("cudaGraphGetNodes", cudaGraphGetNodes(graph_, nullptr, &nodes)));
    nodes_ = nodes;
    return check("cudaGraphInstantiate", cudaGraphInstantiate(&executable_, graph_, 0));
  }
  Status launch() override {
    return check("cudaGraphLaunch", cudaGraphLaunch(executable_, stream_));
  }
  std::uint64_t nodes() const override { return nodes_; }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  std::uint64_t nodes_ = 0;
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(DeviceInfo info) : info_(std::move(info)) {}
  ~CudaDevice() override {
    if (stream_ == nullptr) return;
    cudaStreamSynchronize(stream_);
    context_.blaslt.reset();  // the libraries' handles know the stream
    context_.dnn.reset();
    cudaStreamDestroy(stream_);
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  Status open(const DeviceOptions& options) {
    MEZZO_RETURN_IF_ERROR(check("cudaSetDevice", cudaSetDevice(options.index)));
    context_.device = options.index;
    context_.name = info_.name;
    context_.multiprocessors = info_.multiprocessors;
    context_.major = info_.major;
    context_.minor = info_.minor;
    context_.allow_tf32 = options.allow_tf32;
    context_.cache_folder = options.cache_folder;
    context_.timed_candidates = options.timed_algorithms;
    MEZZO_RETURN_IF_ERROR(check("cudaStreamCreateWithFlags",
                                cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)));
    MEZZO_ASSIGN_OR_RETURN(info_.free_bytes, free_bytes());
    return ok_status();
  }

  DeviceInfo info() const override { return info_; }
  DeviceCounts counts() const override { return counted_calls() - not_counted_; }

  StatusOr<std::uint64_t> free_bytes() const override {
    std::size_t free = 0, total = 0;
    MEZZO_RETURN_IF_ERROR(check("cudaMemGetInfo", cudaMemGetInfo(&free, &total)));
    return std::uint64_t{free};
  }

  StatusOr<std::unique_ptr<DeviceMemory>> allocate(std::uint64_t bytes,
                                                   std::string_view what) override {
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes == 0 ? 1 : bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // which would be told again otherwise
      std::size_t free = 0, total = 0;
      MEZZO_RETURN_IF_ERROR(check("cudaMemGetInfo", cudaMemGetInfo(&free, &total)));
      return invalid_argument(info_.name + ": expected " + format_bytes(bytes) + " for " +
                              std::string(what) + ", got " + format_bytes(free) + " free of " +
                              format_bytes(total) +
                              ". Hint: take a smaller batch, or --accumulate with one");
    }
    MEZZO_RETURN_IF_ERROR(check("cudaMalloc", error));
    std::unique_ptr<DeviceMemory> block = std::make_unique<DeviceBlock>(data, bytes);
    MEZZO_RETURN_IF_ERROR(check("cudaMemsetAsync", cudaMemsetAsync(data, 0, bytes, stream_)));
    return block;
  }

  StatusOr<std::unique_ptr<DeviceMemory>> allocate_pinned(std::uint64_t bytes) override {
    void* data = nullptr;
    const cudaError_t error = cudaMallocHost(&data, bytes == 0 ? 1 : bytes);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return invalid_argument("expected " + format_bytes(bytes) +
                              " of the host's memory for batches on their way to the device");
    }
    MEZZO_RETURN_IF_ERROR(check("cudaMallocHost", error));
    std::unique_ptr<DeviceMemory> block = std::make_unique<PinnedBlock>(data, bytes);
    std::memset(data, 0, bytes);
    return block;
  }

  Status copy_to_device(void* to, const void* from, std::uint64_t bytes) override {
    if (bytes == 0) return ok_status();
    MEZZO_RETURN_IF_ERROR(check("cudaMemcpyAsync",
                                cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_)));
    return wait();
  }
  Status copy_to_host(void* to, const void* from, std::uint64_t bytes) override {
    if (bytes == 0) return ok_status();
    MEZZO_RETURN_IF_ERROR(check("cudaMemcpyAsync",
                                cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_)));
    return wait();
  }
  Status wait() override { return check("cudaStreamSynchronize", cudaStreamSynchronize(stream_)); }

  StatusOr<std::unique_ptr<kernels::Kernel>> prepare_kernel(
      kernels::KernelRequest request) override {
    request.device = &context_;
    return kernels::cuda::prepare_kernel(request);
  }
  void* stream() const override { return stream_; }

  Status begin_capture() override {
    before_capture_ = counted_calls();
    return check("cudaStreamBeginCapture",
                 cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  }
  StatusOr<std::unique_ptr<DeviceGraph>> end_capture() override {
    not_counted_ = not_counted_ + (counted_calls() - before_capture_);
    auto graph = std::make_unique<Graph>(stream_);
    MEZZO_RETURN_IF_ERROR(graph->end_capture());
    return std::unique_ptr<DeviceGraph>(std::move(graph));
  }

  StatusOr<std::unique_ptr<DeviceTraining>> create_training(
      const DeviceTrainingSpec& spec) override {
    return cuda::create_training(*this, stream_, spec);
  }

 private:
  DeviceInfo info_;
  DeviceCounts not_counted_ = counted_calls();  // from before, and what was captured
  DeviceCounts before_capture_;
  kernels::cuda::Context context_;
  cudaStream_t stream_ = nullptr;
};

StatusOr<DeviceInfo> describe(int index) {
  cudaDeviceProp properties;
  MEZZO_RETURN_IF_ERROR(
      check("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, index)));
  DeviceInfo info;
  info.kind = "cuda";
  info.index = index;
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.total_bytes = properties.totalGlobalMem;
  int driver = 0, runtime = 0;
  MEZZO_RETURN_IF_ERROR(check("cudaDriverGetVersion", cudaDriverGetVersion(&driver)));
  MEZZO_RETURN_IF_ERROR(check("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&runtime)));
  info.libraries = "driver " + version_text(driver) + ", runtime " + version_text(runtime) +
                   ", cuBLASLt " + long_version_text(cublasLtGetVersion()) + ", cuDNN " +
                   long_version_text(cudnnGetVersion());
  return info;
}

StatusOr<int> count_devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice) return 0;
  if (error == cudaErrorInsufficientDriver) {
    int runtime = 0;
    MEZZO_RETURN_IF_ERROR(check("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&runtime)));
    return unimplemented(
        "no NVIDIA driver, or one that is too old for CUDA " + version_text(runtime) +
        ". Hint: nvidia-smi shows what is installed; without --device everything runs on the CPU");
  }
  MEZZO_RETURN_IF_ERROR(check("cudaGetDeviceCount", error));
  return count;
}

}  // namespace

StatusOr<std::vector<DeviceInfo>> list_devices() {
  MEZZO_ASSIGN_OR_RETURN(const int count, count_devices());
  std::vector<DeviceInfo> devices;
  if (count == 0) return devices;
  int current = 0;  // of an open device, whose calls go on after this
  MEZZO_RETURN_IF_ERROR(check("cudaGetDevice", cudaGetDevice(&current)));
  for (int i = 0; i < count; ++i) {
    MEZZO_ASSIGN_OR_RETURN(DeviceInfo info, describe(i));
    MEZZO_RETURN_IF_ERROR(check("cudaSetDevice", cudaSetDevice(i)));
    std::size_t free = 0, total = 0;
    MEZZO_RETURN_IF_ERROR(check("cudaMemGetInfo", cudaMemGetInfo(&free, &total)));
    info.free_bytes = free;
    devices.push_back(std::move(info));
  }
  MEZZO_RETURN_IF_ERROR(check("cudaSetDevice", cudaSetDevice(current)));
  return devices;
}

StatusOr<std::unique_ptr<Device>> open_device(const DeviceOptions& options) {
  MEZZO_ASSIGN_OR_RETURN(const int count, count_devices());
  if (count == 0) {
    return unimplemented(
        "no CUDA device was found. Hint: CUDA_VISIBLE_DEVICES hides what it does not name; without "
        "--device everything runs on the CPU");
  }
  if (options.index < 0 || options.index >= count) {
    return invalid_argument(
        "--device cuda:" + std::to_string(options.index) + ": there " +
        (count == 1 ? "is 1 CUDA device" : "are " + std::to_string(count) + " CUDA devices") +
        " here. Hint: mezzo devices lists them");
  }
  MEZZO_ASSIGN_OR_RETURN(DeviceInfo info, describe(options.index));
  if (info.major < kLeastMajor || (info.major == kLeastMajor && info.minor < kLeastMinor)) {
    return invalid_argument(info.name + ": expected compute capability 7.5 or more, got " +
                            std::to_string(info.major) + "." + std::to_string(info.minor));
  }
  auto device = std::make_unique<CudaDevice>(std::move(info));
  MEZZO_RETURN_IF_ERROR(device->open(options));
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace mezzo::runtime::cuda
