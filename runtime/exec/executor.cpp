#include "runtime/exec/executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/exec/host_kernel.h"
#include "runtime/exec/plan_check.h"

namespace mezzo::runtime {
namespace {

// A node without a name goes by what it produces: "node producing 'y' (Gather)".
std::string where(const proto::Step& step) {
  if (step.node().rfind("node producing ", 0) == 0) return step.node();
  return "node '" + step.node() + "' (" + step.op() + ")";
}

kernels::TensorDesc describe(const proto::Tensor& tensor) {
  return {static_cast<DType>(tensor.dtype()),
          {tensor.dims().begin(), tensor.dims().end()},
          static_cast<kernels::Layout>(tensor.layout())};
}

kernels::Attributes read_attributes(const proto::Step& step) {
  kernels::Attributes attributes;
  for (const proto::Attribute& attribute : step.attributes()) {
    switch (attribute.value_case()) {
      case proto::Attribute::kI: attributes.set(attribute.name(), attribute.i()); break;
      case proto::Attribute::kF: attributes.set(attribute.name(), attribute.f()); break;
      case proto::Attribute::kS: attributes.set(attribute.name(), attribute.s()); break;
      case proto::Attribute::kInts:
        attributes.set(attribute.name(),
                       std::vector<std::int64_t>(attribute.ints().values().begin(),
                                                 attribute.ints().values().end()));
        break;
      case proto::Attribute::kFloats:
        attributes.set(attribute.name(), std::vector<double>(attribute.floats().values().begin(),
                                                             attribute.floats().values().end()));
        break;
      default: break;
    }
  }
  return attributes;
}

}  // namespace

StatusOr<std::unique_ptr<Executor>> Executor::create(std::shared_ptr<const proto::Plan> plan,
                                                     WeightSource weights,
                                                     const ExecutorOptions& options) {
  MEZZO_RETURN_IF_ERROR(check_plan(*plan));
  std::unique_ptr<Executor> executor(new Executor(std::move(plan), std::move(weights), options));
  MEZZO_ASSIGN_OR_RETURN(
      executor->tensors_,
      TensorMemory::create(*executor->plan_, executor->weights_, options.device.get()));
  MEZZO_RETURN_IF_ERROR(executor->prepare());
  return executor;
}

std::uint64_t Executor::bytes(int tensor) const { return tensor_bytes(plan_->tensors(tensor)); }

StatusOr<std::unique_ptr<kernels::Kernel>> Executor::prepare_kernel(
    const kernels::KernelRequest& request) {
  if (device() == nullptr) return kernels::prepare_kernel(request, options_.backend);
  // What a well-formed request is, the reference says.
  MEZZO_RETURN_IF_ERROR(kernels::prepare_kernel(request, kernels::Backend::kReference).status());
  return device()->prepare_kernel(request);
}

StatusOr<Executor::PreparedStep> Executor::prepare_step(const proto::Step& step) {
  kernels::KernelRequest request;
  request.op = step.op();
  request.attributes = read_attributes(step);
  request.threads = options_.threads;
  PreparedStep prepared;
  prepared.step = &step;
  for (const int input : step.inputs()) {
    request.inputs.push_back(input < 0 ? kernels::TensorDesc{} : describe(plan_->tensors(input)));
    prepared.inputs.push_back(input < 0 ? nullptr : device_data(input));
    const bool constant =
        device() == nullptr && input >= 0 && plan_->tensors(input).role() == proto::ROLE_CONSTANT;
    request.constants.push_back(constant ? data(input) : nullptr);
  }
  for (const int output : step.outputs()) {
    request.outputs.push_back(output < 0 ? kernels::TensorDesc{}
                                         : describe(plan_->tensors(output)));
    prepared.outputs.push_back(output < 0 ? nullptr : device_data(output));
  }
  auto kernel = prepare_kernel(request);
  if (!kernel.ok() && device() != nullptr && kernel.status().code() == StatusCode::kUnimplemented) {
    on_host_.push_back(&step);
    kernel = HostKernel::create(request, *device());
  }
  if (!kernel.ok()) return kernel.status().with_context(where(step));
  prepared.kernel = std::move(kernel).value();
  return prepared;
}

Status Executor::prepare() {
  std::size_t workspace_bytes = 0;
  std::int32_t number = 0;
  for (const proto::Phase& phase : plan_->phases()) {
    PreparedPhase& prepared = phases_.emplace_back();
    prepared.kind = phase.kind();
    for (const proto::Step& step : phase.steps()) {
      MEZZO_ASSIGN_OR_RETURN(PreparedStep prepared_step, prepare_step(step));
      prepared_step.number = ++number;
      workspace_bytes = std::max(workspace_bytes, prepared_step.kernel->workspace_bytes());
      memory_.held_bytes += prepared_step.kernel->held_bytes();
      prepared.steps.push_back(std::move(prepared_step));
    }
  }
  memory_.arena_bytes = tensors_.arena_bytes();
  memory_.copied_bytes = tensors_.copied_bytes();
  memory_.workspace_bytes = workspace_bytes;
  return allocate_workspace(workspace_bytes);
}

Status Executor::allocate_workspace(std::size_t bytes) {
  if (device() == nullptr) {
    MEZZO_ASSIGN_OR_RETURN(host_workspace_, Buffer::allocate(bytes));
    workspace_ = host_workspace_.data();
    return ok_status();
  }
  MEZZO_ASSIGN_OR_RETURN(device_workspace_, device()->allocate(bytes, "the kernels' workspace"));
  MEZZO_ASSIGN_OR_RETURN(fault_, device()->allocate(sizeof(kernels::DeviceFault), "messages"));
  workspace_ = device_workspace_->data();
  return device()->wait();
}

Status Executor::run_step(PreparedStep& step) {
  kernels::KernelArguments arguments{step.inputs, step.outputs, workspace_};
  if (device() != nullptr) {
    arguments.stream = device()->stream();
    arguments.fault = reinterpret_cast<kernels::DeviceFault*>(fault_->data());
    arguments.step = step.number;
  }
  const Status status = step.kernel->run(arguments);
  return status.ok() ? status : status.with_context(where(*step.step));
}

Status Executor::run(proto::PhaseKind kind) {
  using Clock = std::chrono::steady_clock;
  for (PreparedPhase& phase : phases_) {
    if (phase.kind != kind) continue;
    for (PreparedStep& step : phase.steps) {
      const Clock::time_point start = options_.profile ? Clock::now() : Clock::time_point();
      MEZZO_RETURN_IF_ERROR(run_step(step));
      if (!options_.profile) continue;
      MEZZO_RETURN_IF_ERROR(wait());
      step.total_ms += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      ++step.runs;
    }
  }
  return ok_status();
}

Status Executor::wait() {
  if (device() == nullptr) return ok_status();
  kernels::DeviceFault fault;
  MEZZO_RETURN_IF_ERROR(device()->copy_to_host(&fault, fault_->data(), sizeof fault));
  if (fault.step == 0) return ok_status();
  const kernels::DeviceFault none;
  MEZZO_RETURN_IF_ERROR(device()->copy_to_device(fault_->data(), &none, sizeof none));
  return explain(fault);
}

Status Executor::explain(const kernels::DeviceFault& fault) const {
  for (const PreparedPhase& phase : phases_) {
    for (const PreparedStep& step : phase.steps) {
      if (step.number == fault.step)
        return step.kernel->explain(fault).with_context(where(*step.step));
    }
  }
  return internal_error("a fault of step " + std::to_string(fault.step) + ", which is not there");
}

std::string Executor::not_capturable() const {
  if (on_host_.empty()) return {};
  std::string text = where(*on_host_.front());
  if (on_host_.size() > 1)
    text += " and " + std::to_string(on_host_.size() - 1) + " more steps have";
  else
    text += " has";
  return text + " no kernel on the device";
}

std::vector<StepProfile> Executor::profile() const {
  std::vector<StepProfile> rows;
  for (const PreparedPhase& phase : phases_) {
    for (const PreparedStep& step : phase.steps) {
      rows.push_back({step.step->node(), step.step->op(),
                      std::string(step.kernel->implementation()), step.runs, step.total_ms});
    }
  }
  return rows;
}

}  // namespace mezzo::runtime
