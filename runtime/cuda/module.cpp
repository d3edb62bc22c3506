// The entry of the module: see DeviceModule.
#include <cstring>

#include "runtime/cuda/cuda_device.h"

namespace mezzo::runtime::cuda {
namespace {

class CudaModule : public DeviceModule {
 public:
  StatusOr<std::vector<DeviceInfo>> list() override { return list_devices(); }
  StatusOr<std::unique_ptr<Device>> open(const DeviceOptions& options) override {
    return open_device(options);
  }
};

}  // namespace
}  // namespace mezzo::runtime::cuda

extern "C" __attribute__((visibility("default"))) mezzo::runtime::DeviceModule* mezzo_device_module(
    const char* version) {
  static mezzo::runtime::cuda::CudaModule module;
  return std::strcmp(version, MEZZO_BUILD_ID) == 0 ? &module : nullptr;
}
