// The kernels of all loaded libraries.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/device/execution.h"

namespace cuda_on_cpu {

struct KernelInfo {
  const void* kernel = nullptr;
  std::string name;  // as in the source, for messages
  Invoke invoke = nullptr;
  std::vector<std::size_t> parameter_sizes;
};

// Null where no such kernel was entered. What is returned stays where it is.
const KernelInfo* find_kernel(const void* kernel);

}  // namespace cuda_on_cpu
