// Memory on the device that a kernel holds for as long as it lives: tables made when it is
// prepared.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "kernels/cuda/check.h"

namespace mezzo::kernels::cuda {

class DeviceTable {
 public:
  DeviceTable() = default;
  // A copy of `bytes` bytes of the host; waits for the copy. Of none: data() is null.
  static StatusOr<DeviceTable> copy_of(const void* from, std::size_t bytes) {
    DeviceTable table;
    if (bytes == 0) return table;
    void* data = nullptr;
    MEZZO_RETURN_IF_ERROR(check("cudaMalloc", cudaMalloc(&data, bytes)));
    table.data_ = std::shared_ptr<void>(data, [](void* memory) { cudaFree(memory); });
    table.bytes_ = bytes;
    MEZZO_RETURN_IF_ERROR(
        check("cudaMemcpy", cudaMemcpy(data, from, bytes, cudaMemcpyHostToDevice)));
    // From pageable memory cudaMemcpy returns once the bytes are staged; the streams that kernels
    // run in do not wait for the legacy one, in which they are then on their way.
    MEZZO_RETURN_IF_ERROR(check("cudaStreamSynchronize", cudaStreamSynchronize(cudaStreamLegacy)));
    return table;
  }

  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data_.get());
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> data_;
  std::size_t bytes_ = 0;
};

}  // namespace mezzo::kernels::cuda
