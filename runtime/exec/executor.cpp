#include "runtime/exec/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/exec/plan_check.h"

namespace mezzo::runtime {
namespace {

// A node without a name goes by what it produces: "node producing 'y' (Gather)".
std::string where(const proto::Step& step) {
  if (step.node().rfind("node producing ", 0) == 0) return step.node();
  return "node '" + step.node() + "' (" + step.op() + ")";
}

constexpr std::size_t kAlignment = 64;

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
  MEZZO_RETURN_IF_ERROR(executor->allocate());
  MEZZO_RETURN_IF_ERROR(executor->prepare());
  return executor;
}

std::uint64_t Executor::bytes(int tensor) const { return tensor_bytes(plan_->tensors(tensor)); }

Status Executor::allocate() {
  for (const proto::Arena& arena : plan_->arenas()) {
    MEZZO_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(arena.bytes()));
    arenas_.push_back(std::move(buffer));
    memory_.arena_bytes += arena.bytes();
  }
  addresses_.resize(static_cast<std::size_t>(plan_->tensors_size()));
  for (int i = 0; i < plan_->tensors_size(); ++i) {
    const proto::Tensor& tensor = plan_->tensors(i);
    std::byte*& address = addresses_[static_cast<std::size_t>(i)];
    const bool mapped = tensor.role() == proto::ROLE_CONSTANT && tensor.in_weights_file();
    if (!mapped) address = arenas_[tensor.arena()].data() + tensor.offset();
    if (!tensor.inline_data().empty()) {
      std::memcpy(address, tensor.inline_data().data(), tensor.inline_data().size());
    }
    if (tensor.in_weights_file()) {
      MEZZO_ASSIGN_OR_RETURN(const std::span<const std::byte> data, weights_(tensor.name()));
      MEZZO_RETURN_IF_ERROR(load(i, data));
    }
  }
  return ok_status();
}

// Copies a parameter into its arena; points a constant at its bytes where they lie, if aligned.
Status Executor::load(int tensor, std::span<const std::byte> data) {
  const proto::Tensor& info = plan_->tensors(tensor);
  if (data.size() != bytes(tensor)) {
    return invalid_argument("weights of '" + info.name() + "': expected " +
                            std::to_string(bytes(tensor)) + " bytes, got " +
                            std::to_string(data.size()));
  }
  std::byte*& address = addresses_[static_cast<std::size_t>(tensor)];
  if (info.role() == proto::ROLE_CONSTANT) {
    if (reinterpret_cast<std::uintptr_t>(data.data()) % kAlignment == 0) {
      address = const_cast<std::byte*>(data.data());  // steps never write constants: see check_plan
      return ok_status();
    }
    // Aliases of one constant share its copy.
    std::byte*& copied = copied_[data.data()];
    if (copied == nullptr) {
      MEZZO_ASSIGN_OR_RETURN(Buffer copy, Buffer::allocate(data.size()));
      copied = copy.data();
      memory_.copied_bytes += copy.bytes();
      copies_.push_back(std::move(copy));
    }
    address = copied;
  }
  if (!data.empty()) std::memcpy(address, data.data(), data.size());
  return ok_status();
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
    prepared.inputs.push_back(input < 0 ? nullptr : data(input));
    const bool constant = input >= 0 && plan_->tensors(input).role() == proto::ROLE_CONSTANT;
    request.constants.push_back(constant ? data(input) : nullptr);
  }
  for (const int output : step.outputs()) {
    request.outputs.push_back(output < 0 ? kernels::TensorDesc{}
                                         : describe(plan_->tensors(output)));
    prepared.outputs.push_back(output < 0 ? nullptr : data(output));
  }
  auto kernel = kernels::prepare_kernel(request, options_.backend);
  if (!kernel.ok()) return kernel.status().with_context(where(step));
  prepared.kernel = std::move(kernel).value();
  return prepared;
}

Status Executor::prepare() {
  std::size_t workspace_bytes = 0;
  for (const proto::Phase& phase : plan_->phases()) {
    PreparedPhase& prepared = phases_.emplace_back();
    prepared.kind = phase.kind();
    for (const proto::Step& step : phase.steps()) {
      MEZZO_ASSIGN_OR_RETURN(PreparedStep prepared_step, prepare_step(step));
      workspace_bytes = std::max(workspace_bytes, prepared_step.kernel->workspace_bytes());
      memory_.held_bytes += prepared_step.kernel->held_bytes();
      prepared.steps.push_back(std::move(prepared_step));
    }
  }
  MEZZO_ASSIGN_OR_RETURN(workspace_, Buffer::allocate(workspace_bytes));
  memory_.workspace_bytes = workspace_bytes;
  return ok_status();
}

Status Executor::run(proto::PhaseKind kind) {
  using Clock = std::chrono::steady_clock;
  for (PreparedPhase& phase : phases_) {
    if (phase.kind != kind) continue;
    for (PreparedStep& step : phase.steps) {
      const Clock::time_point start = options_.profile ? Clock::now() : Clock::time_point();
      const Status status = step.kernel->run({step.inputs, step.outputs, workspace_.data()});
      if (!status.ok()) return status.with_context(where(*step.step));
      if (options_.profile) {
        step.total_ms += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
        ++step.runs;
      }
    }
  }
  return ok_status();
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
