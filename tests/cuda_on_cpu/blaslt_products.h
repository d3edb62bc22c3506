// Products prepared on the stand-in for a device, for tests of the cuBLASLt rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "kernels/cuda/context.h"
#include "kernels/cuda/rows.h"
#include "kernels/kernel.h"

namespace mezzo::kernels::cuda {

using Dims = std::vector<std::int64_t>;

inline Context device_context() {
  Context context;
  context.name = "Test GPU";
  context.multiprocessors = 4;
  context.major = 9;
  return context;
}

inline KernelRequest product(std::string op, TensorDesc a, TensorDesc b, TensorDesc y) {
  KernelRequest request;
  request.op = std::move(op);
  request.inputs = {std::move(a), std::move(b)};
  request.outputs = {std::move(y)};
  return request;
}

inline StatusOr<std::unique_ptr<Kernel>> prepared(KernelRequest request, Context& context) {
  request.device = &context;
  return prepare_kernel(request);
}

class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, bytes == 0 ? 1 : bytes) == cudaSuccess)
      data_ = static_cast<std::byte*>(memory);
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

}  // namespace mezzo::kernels::cuda
