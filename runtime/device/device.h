// The border between the runtime and an accelerator: memory, the order of work, kernels.
//
// Devices live in modules of their own (libmezzo_cuda.so), which are loaded when somebody asks for
// one: the program starts on machines that have none of a device's libraries. A module sees no plan
// and no protobuf.
//
// A device has one stream, in which everything happens in the order of the calls; calls that say so
// wait for it. One thread at a time uses a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/status.h"
#include "kernels/kernel.h"

namespace mezzo::runtime {

struct DeviceInfo {
  std::string kind;          // "cuda"
  int index = 0;             // among devices of the kind
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::uint64_t total_bytes = 0, free_bytes = 0;
  std::string libraries;  // "driver 13.0, runtime 13.0, cuBLASLt 13.1.0, cuDNN 9.13.0"
};

struct DeviceOptions {
  int index = 0;
  bool allow_tf32 = false;   // float32 contractions may round their operands to TF32
  std::string cache_folder;  // where choices of algorithms are kept; empty: nowhere
  // Algorithms that are timed for each contraction, the fastest of which is kept; 1: none are.
  int timed_algorithms = 1;
};

// Calls of the accelerator's libraries since the device was opened, whoever made them. Of what is
// captured into a graph none counts; each launch of the graph does, once.
struct DeviceCounts {
  std::uint64_t launches = 0;  // kernels, libraries' operations (one each) and graphs
  std::uint64_t copies = 0;    // copies and fills of memory
  std::uint64_t waits = 0;     // calls that let the host wait for the device

  friend DeviceCounts operator-(const DeviceCounts& a, const DeviceCounts& b) {
    return {a.launches - b.launches, a.copies - b.copies, a.waits - b.waits};
  }
  friend DeviceCounts operator+(const DeviceCounts& a, const DeviceCounts& b) {
    return {a.launches + b.launches, a.copies + b.copies, a.waits + b.waits};
  }
};

// Memory of a device or of the host, given back on destruction.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() const = 0;
  virtual std::uint64_t bytes() const = 0;
};

// Work recorded once, to be launched many times with the same buffers.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual Status launch() = 0;
  virtual std::uint64_t nodes() const = 0;
};

class DeviceTraining;
struct DeviceTrainingSpec;

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceInfo info() const = 0;  // free_bytes: when it was opened
  virtual DeviceCounts counts() const = 0;
  // Of the device's memory, as its driver says now: other programs' use counts.
  virtual StatusOr<std::uint64_t> free_bytes() const = 0;

  // Zeroed memory on the device, aligned to 256 bytes. InvalidArgument where there is not so much,
  // with the numbers; `what` is it for.
  virtual StatusOr<std::unique_ptr<DeviceMemory>> allocate(std::uint64_t bytes,
                                                           std::string_view what) = 0;
  // Zeroed memory of the host that the device copies to and from without waiting.
  virtual StatusOr<std::unique_ptr<DeviceMemory>> allocate_pinned(std::uint64_t bytes) = 0;

  // These wait for everything put into the stream before.
  virtual Status copy_to_device(void* to, const void* from, std::uint64_t bytes) = 0;
  virtual Status copy_to_host(void* to, const void* from, std::uint64_t bytes) = 0;
  virtual Status wait() = 0;

  // REQUIRES: a reference kernel has accepted the request. Unimplemented: no row takes it.
  virtual StatusOr<std::unique_ptr<kernels::Kernel>> prepare_kernel(
      kernels::KernelRequest request) = 0;
  // What kernels put their work into: KernelArguments::stream.
  virtual void* stream() const = 0;

  // Until end_capture() work is recorded instead of done.
  virtual Status begin_capture() = 0;
  virtual StatusOr<std::unique_ptr<DeviceGraph>> end_capture() = 0;

  // See device_training.h. The device outlives it.
  virtual StatusOr<std::unique_ptr<DeviceTraining>> create_training(
      const DeviceTrainingSpec& spec) = 0;
};

// A module's entry, found under kDeviceModuleEntry. It belongs to the module, which stays loaded.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;
  // What can be opened; empty where there is no device. An error says what stands in the way: no
  // driver, one too old.
  virtual StatusOr<std::vector<DeviceInfo>> list() = 0;
  virtual StatusOr<std::unique_ptr<Device>> open(const DeviceOptions& options) = 0;
};

// `version` is of the program's compiler and of the headers at the border (MEZZO_BUILD_ID); null
// where the module was built with others.
inline constexpr const char* kDeviceModuleEntry = "mezzo_device_module";
using DeviceModuleEntry = DeviceModule* (*)(const char* version);

// The module for CUDA. Unimplemented, with what to do about it: this build has none, or a library
// it needs is not here.
StatusOr<DeviceModule*> load_cuda_module();

}  // namespace mezzo::runtime
