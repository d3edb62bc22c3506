#include "runtime/exec/host_kernel.h"

namespace mezzo::runtime {

StatusOr<std::unique_ptr<kernels::Kernel>> HostKernel::create(const kernels::KernelRequest& request,
                                                              Device& device) {
  MEZZO_ASSIGN_OR_RETURN(auto kernel, kernels::prepare_kernel(request, kernels::Backend::kCpu));
  std::unique_ptr<HostKernel> step(new HostKernel(device, std::move(kernel)));
  for (const kernels::TensorDesc& desc : request.inputs) {
    MEZZO_ASSIGN_OR_RETURN(const Operand home, step->home_of(desc));
    step->inputs_.push_back(home);
    step->input_data_.push_back(home.data);
  }
  for (const kernels::TensorDesc& desc : request.outputs) {
    MEZZO_ASSIGN_OR_RETURN(const Operand home, step->home_of(desc));
    step->outputs_.push_back(home);
    step->output_data_.push_back(home.data);
  }
  MEZZO_ASSIGN_OR_RETURN(step->workspace_, Buffer::allocate(step->kernel_->workspace_bytes()));
  return std::unique_ptr<kernels::Kernel>(std::move(step));
}

StatusOr<HostKernel::Operand> HostKernel::home_of(const kernels::TensorDesc& desc) {
  if (!desc.present()) return Operand{nullptr, 0};
  MEZZO_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(desc.bytes()));
  return Operand{buffers_.emplace_back(std::move(buffer)).data(), desc.bytes()};
}

Status HostKernel::run(const kernels::KernelArguments& arguments) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].data == nullptr) continue;
    MEZZO_RETURN_IF_ERROR(
        device_.copy_to_host(inputs_[i].data, arguments.inputs[i], inputs_[i].bytes));
  }
  MEZZO_RETURN_IF_ERROR(kernel_->run({input_data_, output_data_, workspace_.data()}));
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].data == nullptr) continue;
    MEZZO_RETURN_IF_ERROR(
        device_.copy_to_device(arguments.outputs[i], outputs_[i].data, outputs_[i].bytes));
  }
  return ok_status();
}

}  // namespace mezzo::runtime
