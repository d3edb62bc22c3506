#include "tests/cuda_training/host_device.h"

#include <dlfcn.h>

#include <string>

namespace mezzo::test {

StatusOr<std::unique_ptr<runtime::Device>> open_host_device(const char* build) {
  const std::string path = std::string(MEZZO_HOST_MODULE_FOLDER) + "/libmezzo_cuda.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return internal_error(dlerror());
  const auto entry =
      reinterpret_cast<runtime::DeviceModuleEntry>(dlsym(library, runtime::kDeviceModuleEntry));
  runtime::DeviceModule* module =
      entry == nullptr ? nullptr : entry(build == nullptr ? MEZZO_BUILD_ID : build);
  if (module == nullptr) return internal_error(path + " is of another build");
  return module->open({});
}

}  // namespace mezzo::test
