#include <dlfcn.h>

#include "runtime/device/device.h"

namespace mezzo::runtime {
namespace {

constexpr const char* kModuleFile = "libmezzo_cuda.so";

}  // namespace

// The file lies where the program's run path says, beside it or in ../lib; once loaded it stays.
StatusOr<DeviceModule*> load_cuda_module() {
  void* library = dlopen(kModuleFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    const std::string text = error == nullptr ? "" : error;
    if (text.find(std::string(kModuleFile) + ": cannot open") != std::string::npos) {
      return unimplemented(
          "this mezzo was built without CUDA. Hint: build it where the CUDA toolkit (13 or newer) "
          "and cuDNN 9 are installed; everything else works on the CPU");
    }
    // The loader names the file that is at fault first, or the symbol that none of them has.
    const bool is_damaged = text.find(std::string(kModuleFile) + ": ") != std::string::npos &&
                            text.find("undefined symbol") == std::string::npos;
    return unimplemented("cannot load the CUDA part: " + text +
                         (is_damaged
                              ? ". Hint: the file is damaged, or a folder that the loader looks in "
                                "first (LD_LIBRARY_PATH) has another of its name; install it anew"
                              : ". Hint: the libraries of CUDA 13 (cudart, cublasLt) and cuDNN 9 "
                                "must be where the loader looks (LD_LIBRARY_PATH)"));
  }
  const auto entry = reinterpret_cast<DeviceModuleEntry>(dlsym(library, kDeviceModuleEntry));
  DeviceModule* module = entry == nullptr ? nullptr : entry(MEZZO_BUILD_ID);
  if (module == nullptr) {
    return unimplemented(std::string(kModuleFile) +
                         " is of another build than this program. Hint: install both together");
  }
  return module;
}

}  // namespace mezzo::runtime
