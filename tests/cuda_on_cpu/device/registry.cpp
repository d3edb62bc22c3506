#include "tests/cuda_on_cpu/device/registry.h"

#include <map>
#include <mutex>

namespace cuda_on_cpu {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<const void*, KernelInfo> kernels;
};

// Made on first use, since libraries enter their kernels before main, in any order; never freed.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

// GCC: "... [with void (* kKernel)(Parameters ...) = a_kernel<float>; ...]". Clang: without "with".
std::string short_name(std::string text) {
  const std::string mark = "kKernel";
  std::size_t begin = text.rfind(mark);
  begin = begin == std::string::npos ? begin : text.find(" = ", begin);
  if (begin == std::string::npos) return text;
  text = text.substr(begin + 3);
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.find_first_not_of('&'));
}

}  // namespace

const KernelInfo* find_kernel(const void* kernel) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.kernels.find(kernel);
  return found == all.kernels.end() ? nullptr : &found->second;
}

void cuda_on_cpu_register_kernel(const void* kernel, const char* name, Invoke invoke,
                                 const std::size_t* parameter_sizes, std::size_t parameters) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.kernels[kernel] = {
      kernel, short_name(name), invoke, {parameter_sizes, parameter_sizes + parameters}};
}

}  // namespace cuda_on_cpu
