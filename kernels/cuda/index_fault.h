// Indices on the device: reading them, and what a fault of one means.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "kernels/cuda/fault.h"
#include "kernels/cuda/function_kernel.h"

namespace mezzo::kernels::cuda {

// Where a kernel reports an index that is out of range.
struct FaultPlace {
  DeviceFault* fault = nullptr;
  std::int32_t step = 0;
};
inline FaultPlace fault_place(const KernelArguments& arguments) {
  return {arguments.fault, arguments.step};
}

__device__ inline std::int64_t load_index(const void* indices, std::int64_t at,
                                          std::int32_t is_wide) {
  return is_wide != 0 ? static_cast<const std::int64_t*>(indices)[at]
                      : static_cast<const std::int32_t*>(indices)[at];
}

// `index` counted from the front; negative after a report where it is not in [-size, size).
// `position`: of the index among operand 1.
__device__ inline std::int64_t checked_index(std::int64_t index, std::int64_t size,
                                             const FaultPlace& place, std::int64_t position) {
  if (index >= -size && index < size) return index < 0 ? index + size : index;
  report_fault(place.fault, place.step, 1, position, index);
  return -1;
}

inline Status index_error(const std::string& op, const DeviceFault& fault, std::int64_t size) {
  return invalid_argument(op + ", operand 1 'indices': element " + std::to_string(fault.position) +
                          " is " + std::to_string(fault.value) + ", expected -" +
                          std::to_string(size) + " to " + std::to_string(size - 1));
}

// For operators whose indices all count along one axis of `size`.
inline Explain explain_index(std::string op, std::int64_t size) {
  return
      [op = std::move(op), size](const DeviceFault& fault) { return index_error(op, fault, size); };
}

}  // namespace mezzo::kernels::cuda
