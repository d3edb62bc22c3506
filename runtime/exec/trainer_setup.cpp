// Making a trainer: the plan's tensors, the data and the optimizers are connected once.

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/exec/trainer.h"

namespace mezzo::runtime {
namespace {

std::int64_t elems(const Executor& executor, int tensor) {
  return static_cast<std::int64_t>(executor.bytes(tensor) / sizeof(float));
}

bool is_float32(const proto::Plan& plan, int tensor) {
  return plan.tensors(tensor).dtype() == static_cast<std::uint32_t>(DType::kFloat32);
}

// An optimizer before it is made.
struct OptimizerDraft {
  std::string name;
  std::vector<std::string> group_names;
  std::vector<OptimizerGroup> groups;
  std::vector<OptimizerParameter> parameters;

  void add(const ParameterGroup& group, std::vector<OptimizerParameter>& members) {
    for (OptimizerParameter& parameter : members) {
      parameter.group = static_cast<int>(groups.size());
      parameters.push_back(std::move(parameter));
    }
    groups.push_back(group.settings);
    group_names.push_back(group.name);
  }
};

using Members = std::vector<std::vector<OptimizerParameter>>;  // by group

// groups[0] has those that no other names.
StatusOr<Members> members_of(const std::vector<ParameterGroup>& groups,
                             std::vector<OptimizerParameter> parameters) {
  std::map<std::string, std::size_t> group_of;
  for (std::size_t i = 1; i < groups.size(); ++i) {
    for (const std::string& name : groups[i].parameters) {
      if (!group_of.emplace(name, i).second)
        return internal_error("parameter '" + name + "' is in two groups");
    }
  }
  Members members(groups.size());
  for (OptimizerParameter& parameter : parameters) {
    const auto found = group_of.find(parameter.name);
    members[found == group_of.end() ? 0 : found->second].push_back(std::move(parameter));
  }
  return members;
}

std::vector<OptimizerDraft> draft_optimizers(const std::vector<ParameterGroup>& groups,
                                             Members& members) {
  std::vector<OptimizerDraft> drafts;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (members[i].empty() || groups[i].settings.frozen) continue;
    std::string name(optimizer_name(groups[i].settings.kind));
    if (!groups[i].instance.empty()) name += ":" + groups[i].instance;
    auto draft = std::find_if(drafts.begin(), drafts.end(),
                              [&](const OptimizerDraft& d) { return d.name == name; });
    if (draft == drafts.end())
      draft = drafts.insert(drafts.end(), OptimizerDraft{name, {}, {}, {}});
    draft->add(groups[i], members[i]);
  }
  for (std::size_t i = 0; i < groups.size() && !drafts.empty(); ++i) {
    if (groups[i].settings.frozen && !members[i].empty()) drafts.front().add(groups[i], members[i]);
  }
  return drafts;
}

// The host's copy of what a device keeps of every parameter. Its pages take memory once somebody
// asks for the state, as for a checkpoint.
StatusOr<Buffer> make_host_state(std::vector<OptimizerDraft>& drafts) {
  constexpr std::size_t kStates = 2;  // first and second
  std::size_t elems = 0;
  for (const OptimizerDraft& draft : drafts) {
    for (const OptimizerParameter& p : draft.parameters)
      elems += kStates * static_cast<std::size_t>(p.elems);
  }
  MEZZO_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(elems * sizeof(float)));
  auto* next = reinterpret_cast<float*>(buffer.data());
  for (OptimizerDraft& draft : drafts) {
    for (OptimizerParameter& p : draft.parameters) {
      p.first = std::exchange(next, next + p.elems);
      p.second = std::exchange(next, next + p.elems);
      const OptimizerGroup& group = draft.groups[static_cast<std::size_t>(p.group)];
      if (group.kind == OptimizerKind::kAdagrad && !group.frozen)
        std::fill_n(p.first, p.elems, static_cast<float>(group.initial_accumulator));
    }
  }
  return buffer;
}

}  // namespace

std::vector<InputExpectation> input_expectations(const proto::Plan& plan) {
  std::vector<InputExpectation> inputs;
  for (const proto::Port& port : plan.inputs()) {
    const proto::Tensor& tensor = plan.tensors(port.tensor());
    inputs.push_back({port.name(),
                      static_cast<DType>(tensor.dtype()),
                      {tensor.dims().begin(), tensor.dims().end()}});
  }
  return inputs;
}

std::int64_t plan_batch_size(const proto::Plan& plan) {
  if (plan.inputs_size() == 0) return 0;
  const proto::Tensor& tensor = plan.tensors(plan.inputs(0).tensor());
  return tensor.dims_size() == 0 ? 0 : tensor.dims(0);
}

Trainer::Trainer(Executor& executor, Dataset& data, const TrainerOptions& options,
                 const LrSchedule& schedule, const LossScaler& scaler)
    : executor_(executor), data_(data), options_(options), schedule_(schedule), scaler_(scaler) {}

StatusOr<std::unique_ptr<Trainer>> Trainer::create(Executor& executor, Dataset& data,
                                                   const TrainerOptions& options) {
  if (!executor.plan().has_training()) {
    return invalid_argument(
        "the plan has no training part. Hint: `mezzo train` compiles its own from the .onnx file");
  }
  if (options.accumulate < 1) return invalid_argument("--accumulate: expected at least 1");
  MEZZO_ASSIGN_OR_RETURN(LrSchedule schedule, LrSchedule::create(options.schedule));
  MEZZO_ASSIGN_OR_RETURN(const LossScaler scaler, LossScaler::create(options.loss_scale));
  std::unique_ptr<Trainer> trainer(new Trainer(executor, data, options, schedule, scaler));
  MEZZO_RETURN_IF_ERROR(trainer->bind());
  return trainer;
}

// A batch of the data must fill every input exactly.
Status Trainer::check_batches(const Dataset& data) const {
  const proto::Plan& plan = executor_.plan();
  const std::span<const InputExpectation> inputs = data.inputs();
  if (inputs.size() != static_cast<std::size_t>(plan.inputs_size())) {
    return invalid_argument("expected data for " + std::to_string(plan.inputs_size()) +
                            " inputs, got " + std::to_string(inputs.size()));
  }
  for (int i = 0; i < plan.inputs_size(); ++i) {
    const proto::Tensor& tensor = plan.tensors(plan.inputs(i).tensor());
    const std::vector<std::int64_t> batch = data.batch_dims(static_cast<std::size_t>(i));
    const bool same =
        inputs[static_cast<std::size_t>(i)].dtype == static_cast<DType>(tensor.dtype()) &&
        std::equal(batch.begin(), batch.end(), tensor.dims().begin(), tensor.dims().end());
    if (!same) {
      return invalid_argument(
          "input '" + plan.inputs(i).name() +
          "': the plan expects batches of another size. Hint: compile it with the batch size of "
          "the data");
    }
  }
  return ok_status();
}

// Of every parameter that has a gradient, in the plan's order; their groups are set later.
std::vector<OptimizerParameter> Trainer::optimizer_parameters() {
  const proto::Plan& plan = executor_.plan();
  std::vector<OptimizerParameter> parameters;
  for (const proto::Parameter& p : plan.parameters()) {
    if (p.gradient() < 0) continue;
    OptimizerParameter parameter;
    parameter.name = p.name();
    parameter.elems = elems(executor_, p.master());
    parameter.master = executor_.data_as<float>(p.master());
    parameter.grad = executor_.data_as<float>(p.gradient());
    if (options_.accumulate > 1 && executor_.device() == nullptr) {
      accumulators_.emplace_back(static_cast<std::size_t>(parameter.elems), 0.0F);
      parameter.grad = accumulators_.back().data();
    }
    if (p.low_copy() >= 0) {
      parameter.low = executor_.data_as<std::uint16_t>(p.low_copy());
      parameter.low_dtype = static_cast<DType>(plan.tensors(p.low_copy()).dtype());
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

// One optimizer for the groups of each kind and instance that have something to train. Frozen
// parameters, which must only have their low copies written, go with the first.
Status Trainer::make_optimizers() {
  std::vector<ParameterGroup> groups = {{"", options_.optimizer, "", {}}};
  groups.insert(groups.end(), options_.groups.begin(), options_.groups.end());
  MEZZO_ASSIGN_OR_RETURN(auto members, members_of(groups, optimizer_parameters()));
  std::vector<OptimizerDraft> drafts = draft_optimizers(groups, members);
  if (drafts.empty()) {
    return invalid_argument(
        "nothing to train: every parameter is frozen or there is none. "
        "Hint: see --freeze, --train and --group");
  }
  if (drafts.size() > kernels::kMostOptimizers) {
    return unimplemented("--group: expected at most " + std::to_string(kernels::kMostOptimizers) +
                         " optimizers, got " + std::to_string(drafts.size()) +
                         ". Hint: groups of one kind and instance are one optimizer");
  }
  if (executor_.device() != nullptr) {
    MEZZO_ASSIGN_OR_RETURN(host_state_, make_host_state(drafts));
  }
  for (OptimizerDraft& draft : drafts) {
    MEZZO_ASSIGN_OR_RETURN(Optimizer optimizer,
                           Optimizer::create(std::move(draft.groups), std::move(draft.parameters),
                                             {options_.threads, options_.average_decay}));
    if (executor_.device() == nullptr) optimizer.refresh_low();
    units_.push_back({std::move(draft.name), std::move(draft.group_names), std::move(optimizer),
                      GradientStats(), false});
  }
  return ok_status();
}

// Connects the plan's tensors with optimizers, data and states, once.
Status Trainer::bind() {
  const proto::Plan& plan = executor_.plan();
  MEZZO_RETURN_IF_ERROR(check_batches(data_));
  for (const proto::Port& port : plan.inputs())
    input_buffers_.push_back(executor_.data(port.tensor()));
  MEZZO_RETURN_IF_ERROR(make_optimizers());
  for (const proto::State& state : plan.states()) {
    if (!is_float32(plan, state.tensor()) || !is_float32(plan, state.next())) {
      return unimplemented("state '" + state.name() + "': expected float");
    }
    states_.push_back({executor_.data_as<float>(state.tensor()),
                       executor_.data_as<float>(state.next()),
                       std::vector<float>(static_cast<std::size_t>(
                           executor_.device() == nullptr ? elems(executor_, state.tensor()) : 0))});
  }
  if (executor_.device() != nullptr) {
    MEZZO_ASSIGN_OR_RETURN(device_, DeviceSteps::create(executor_, device_spec(), options_.graphs));
  }
  return ok_status();
}

}  // namespace mezzo::runtime
