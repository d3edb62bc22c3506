// A step that a device has no kernel for, computed on the host: operands are fetched, the CPU's
// kernel runs, results are sent back. Waits for the device, so no graph can hold it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "runtime/device/device.h"
#include "runtime/exec/buffer.h"

namespace mezzo::runtime {

class HostKernel : public kernels::Kernel {
 public:
  // REQUIRES: the device outlives the kernel.
  static StatusOr<std::unique_ptr<kernels::Kernel>> create(const kernels::KernelRequest& request,
                                                           Device& device);

  Status run(const kernels::KernelArguments& arguments) override;
  std::string_view implementation() const override { return implementation_; }

 private:
  struct Operand {
    std::byte* data;  // null: absent
    std::size_t bytes;
  };
  HostKernel(Device& device, std::unique_ptr<kernels::Kernel> kernel)
      : device_(device),
        kernel_(std::move(kernel)),
        implementation_("host:" + std::string(kernel_->implementation())) {}
  StatusOr<Operand> home_of(const kernels::TensorDesc& desc);

  Device& device_;
  std::unique_ptr<kernels::Kernel> kernel_;
  std::string implementation_;
  std::vector<Buffer> buffers_;
  std::vector<Operand> inputs_, outputs_;
  std::vector<const void*> input_data_;
  std::vector<void*> output_data_;
  Buffer workspace_;
};

}  // namespace mezzo::runtime
