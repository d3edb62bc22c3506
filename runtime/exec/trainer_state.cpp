// Checkpoints of a trainer, and evaluation: what is not part of a step.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "compiler/support/text.h"
#include "runtime/exec/class_ports.h"
#include "runtime/exec/trainer.h"

namespace mezzo::runtime {
namespace {

template <typename Record>
PaddedTensor padded(const std::string& name, const Record& record, const proto::Tensor& tensor,
                    float* values) {
  return {name,
          {record.logical_dims().begin(), record.logical_dims().end()},
          {tensor.dims().begin(), tensor.dims().end()},
          values};
}

std::vector<PaddedTensor> weight_tensors(const Executor& executor) {
  const proto::Plan& plan = executor.plan();
  std::vector<PaddedTensor> tensors;
  for (const proto::Parameter& p : plan.parameters()) {
    tensors.push_back(
        padded(p.name(), p, plan.tensors(p.master()), executor.data_as<float>(p.master())));
  }
  for (const proto::State& s : plan.states()) {
    tensors.push_back(
        padded(s.name(), s, plan.tensors(s.tensor()), executor.data_as<float>(s.tensor())));
  }
  return tensors;
}

using ParametersByName = std::unordered_map<std::string_view, const proto::Parameter*>;

ParametersByName parameters_by_name(const proto::Plan& plan) {
  ParametersByName parameters;
  for (const proto::Parameter& p : plan.parameters()) parameters.emplace(p.name(), &p);
  return parameters;
}

}  // namespace

// Tensors beside parameters, as PARAMETER.NAME.
std::vector<PaddedTensor> Trainer::optimizer_tensors() {
  const proto::Plan& plan = executor_.plan();
  const ParametersByName parameters = parameters_by_name(plan);
  std::vector<PaddedTensor> tensors;
  for (Unit& unit : units_) {
    for (const Optimizer::State& state : unit.optimizer.states()) {
      const proto::Parameter& p = *parameters.at(unit.optimizer.parameters()[state.parameter].name);
      tensors.push_back(padded(p.name() + "." + std::string(state.name), p,
                               plan.tensors(p.master()), state.values.data()));
    }
  }
  return tensors;
}

// The weights, but with the averages for those that are trained. Before an optimizer's first step
// its weights are their own average.
std::vector<PaddedTensor> Trainer::average_tensors() {
  if (options_.average_decay <= 0) return {};
  std::unordered_map<std::string_view, float*> averages;
  for (Unit& unit : units_) {
    if (unit.optimizer.applied_steps() == 0) continue;
    for (const Optimizer::State& average : unit.optimizer.averages()) {
      averages.emplace(unit.optimizer.parameters()[average.parameter].name, average.values.data());
    }
  }
  std::vector<PaddedTensor> tensors = weight_tensors(executor_);
  for (PaddedTensor& tensor : tensors) {
    if (const auto found = averages.find(tensor.name); found != averages.end())
      tensor.values = found->second;
  }
  return tensors;
}

StatusOr<std::vector<Optimizer*>> Trainer::all_optimizers() {
  MEZZO_RETURN_IF_ERROR(to_host());
  newer_ = Newer::kHost;  // as the caller may change them
  std::vector<Optimizer*> all;
  for (Unit& unit : units_) all.push_back(&unit.optimizer);
  return all;
}

std::vector<OptimizerProgress> Trainer::optimizers() const {
  std::vector<OptimizerProgress> progress;
  for (const Unit& unit : units_) progress.push_back({unit.name, unit.optimizer.applied_steps()});
  return progress;
}

// On the host, and then on the device as well.
Status Trainer::swap_averages() {
  for (Unit& unit : units_) unit.optimizer.swap_averages();
  return upload_weights();
}

StatusOr<Evaluation> Trainer::evaluate(const std::string& data_path, bool with_average) {
  MEZZO_RETURN_IF_ERROR(to_device());
  if (!with_average) return evaluate_weights(data_path);
  MEZZO_RETURN_IF_ERROR(to_host());
  MEZZO_RETURN_IF_ERROR(swap_averages());
  StatusOr<Evaluation> result = evaluate_weights(data_path);
  MEZZO_RETURN_IF_ERROR(swap_averages());
  return result;
}

StatusOr<Evaluation> Trainer::evaluate_weights(const std::string& data_path) {
  const proto::Plan& plan = executor_.plan();
  const std::int64_t batch = plan_batch_size(plan);
  if (plan.training().evaluate_loss() < 0 || batch < 1)
    return invalid_argument("the plan has no evaluate phase");
  DatasetOptions options;
  options.batch_size = batch;
  options.shuffle = false;
  MEZZO_ASSIGN_OR_RETURN(Dataset data, Dataset::open(data_path, input_expectations(plan), options));
  MEZZO_RETURN_IF_ERROR(check_batches(data));
  const std::optional<ClassPorts> ports = find_class_ports(plan);
  Evaluation result;
  result.samples = data.samples();
  double loss_sum = 0;
  std::int64_t full_batches = 0;
  HitCount total;
  for (std::int64_t done = 0; done < data.samples(); done += batch) {
    data.next(input_buffers_);
    for (const proto::Port& port : plan.inputs())
      MEZZO_RETURN_IF_ERROR(executor_.upload(port.tensor()));
    MEZZO_RETURN_IF_ERROR(executor_.run(proto::PHASE_EVALUATE));
    MEZZO_RETURN_IF_ERROR(executor_.wait());
    MEZZO_RETURN_IF_ERROR(executor_.download(plan.training().evaluate_loss()));
    if (ports) MEZZO_RETURN_IF_ERROR(executor_.download(ports->scores));
    // The last batch wraps around: its loss would count samples twice, unless it is all there is.
    const std::int64_t fresh = std::min(batch, data.samples() - done);
    if (fresh == batch || full_batches == 0) {
      loss_sum += static_cast<double>(*executor_.data_as<float>(plan.training().evaluate_loss()));
      ++full_batches;
    }
    if (!ports) continue;
    const HitCount count = count_hits(executor_, *ports, fresh);
    total.hits += count.hits;
    total.places += count.places;
  }
  result.loss = loss_sum / static_cast<double>(full_batches);
  if (total.places > 0)
    result.accuracy = static_cast<double>(total.hits) / static_cast<double>(total.places);
  return result;
}

std::uint64_t Trainer::state_bytes() {
  if (device_ != nullptr) return device_->training().bytes();
  std::size_t elems = 0;
  for (Unit& unit : units_) {
    for (const Optimizer::State& state : unit.optimizer.states()) elems += state.values.size();
    for (const Optimizer::State& state : unit.optimizer.averages()) elems += state.values.size();
  }
  for (const std::vector<float>& accumulator : accumulators_) elems += accumulator.size();
  for (const StateBuffers& state : states_) elems += state.before.size();
  return elems * sizeof(float);
}

Status Trainer::save(const std::string& folder) {
  MEZZO_RETURN_IF_ERROR(to_host());
  TrainingState state;
  state.step = step_;
  state.applied_steps = units_.front().optimizer.applied_steps();
  state.optimizers = optimizers();
  state.loss_scaler = scaler_;
  state.rng_seed = options_.seed;
  state.rng_draws = draws_;
  state.options_digest = options_.options_digest;
  state.options = options_.options;
  state.data = std::make_shared<const nlohmann::json>(data_.save());
  const std::vector<PaddedTensor> weights = weight_tensors(executor_);
  const std::vector<PaddedTensor> optimizer = optimizer_tensors(), average = average_tensors();
  return save_checkpoint(folder, {weights, optimizer, average, options_.fixed}, state);
}

// Which option differs, as " (--lr: 0.1 then, 0.2 now)"; nothing if none does or the checkpoint
// does not tell.
std::string Trainer::changed_option(const TrainingState& saved) const {
  if (!saved.options) return {};
  const auto text_of = [](const std::map<std::string, std::string>& options,
                          const std::string& name) {
    const auto found = options.find(name);
    return found == options.end() ? std::string("its default") : printable(found->second);
  };
  std::map<std::string, std::string> all = *saved.options;
  all.insert(options_.options.begin(), options_.options.end());
  for (const auto& [name, value] : all) {
    const std::string then = text_of(*saved.options, name), now = text_of(options_.options, name);
    if (then == now) continue;
    std::string text = " (--" + printable(name) + ": ";
    return text.append(then).append(" then, ").append(now).append(" now)");
  }
  return {};
}

Status Trainer::check_same_run(const std::string& folder, const Checkpoint& checkpoint) const {
  const TrainingState& saved = checkpoint.state;
  const std::string changed = changed_option(saved);
  if (!changed.empty() || saved.options_digest != options_.options_digest) {
    return invalid_argument(folder + ": was saved by a run with other options" +
                            (changed.empty() ? " (model, data, precision or optimizer)" : changed) +
                            ". Hint: resume with the options the run was started with");
  }
  const bool same_optimizers =
      saved.optimizers.empty()
          ? units_.size() == 1
          : std::ranges::equal(saved.optimizers, units_, [](const auto& row, const Unit& unit) {
              return row.name == unit.name;
            });
  if (!same_optimizers || checkpoint.average.has_value() != (options_.average_decay > 0)) {
    return invalid_argument(
        folder +
        ": was saved by a run with other options (optimizers or moving average). "
        "Hint: resume with the options the run was started with");
  }
  return ok_status();
}

Status Trainer::resume(const std::string& folder) {
  MEZZO_ASSIGN_OR_RETURN(const Checkpoint checkpoint, load_checkpoint(folder));
  MEZZO_RETURN_IF_ERROR(check_same_run(folder, checkpoint));
  if (device_ != nullptr && device_->in_flight() > 0)
    return internal_error("training steps are in flight");
  newer_ = Newer::kHost;
  const TrainingState& saved = checkpoint.state;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    units_[i].optimizer.set_applied_steps(
        saved.optimizers.empty() ? saved.applied_steps : saved.optimizers[i].applied_steps);
  }
  MEZZO_RETURN_IF_ERROR(
      restore_tensors(checkpoint.model, weight_tensors(executor_), options_.fixed));
  MEZZO_RETURN_IF_ERROR(restore_tensors(checkpoint.optimizer, optimizer_tensors()));
  // Running statistics are in this file as well, as the other one has them.
  if (checkpoint.average)
    MEZZO_RETURN_IF_ERROR(restore_tensors(*checkpoint.average, average_tensors(), options_.fixed));
  if (saved.data) MEZZO_RETURN_IF_ERROR(data_.load(*saved.data));
  scaler_ = saved.loss_scaler;
  step_ = saved.step;
  draws_ = saved.rng_draws;
  options_.seed = saved.rng_seed;
  for (Unit& unit : units_) unit.optimizer.refresh_low();
  return ok_status();
}

}  // namespace mezzo::runtime
