// Checkpoints of a trainer, and evaluation: what is not part of a step.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/exec/class_ports.h"
#include "runtime/exec/trainer.h"
#include "runtime/train/checkpoint.h"

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

std::vector<PaddedTensor> optimizer_tensors(const Executor& executor, Optimizer& optimizer) {
  const proto::Plan& plan = executor.plan();
  std::vector<const proto::Parameter*> trained;
  for (const proto::Parameter& p : plan.parameters()) {
    if (p.gradient() >= 0) trained.push_back(&p);
  }
  std::vector<PaddedTensor> tensors;
  for (const Optimizer::State& state : optimizer.states()) {
    const proto::Parameter& p = *trained[state.parameter];
    tensors.push_back(padded(p.name() + "." + std::string(state.name), p, plan.tensors(p.master()),
                             state.values.data()));
  }
  return tensors;
}

}  // namespace

StatusOr<Evaluation> Trainer::evaluate(const std::string& data_path) {
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
    MEZZO_RETURN_IF_ERROR(executor_.run(proto::PHASE_EVALUATE));
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
  std::size_t elems = 0;
  for (const Optimizer::State& state : optimizer_->states()) elems += state.values.size();
  for (const std::vector<float>& accumulator : accumulators_) elems += accumulator.size();
  for (const StateBuffers& state : states_) elems += state.before.size();
  return elems * sizeof(float);
}

Status Trainer::save(const std::string& folder) {
  TrainingState state;
  state.step = step_;
  state.applied_steps = optimizer_->applied_steps();
  state.loss_scaler = scaler_;
  state.rng_seed = options_.seed;
  state.rng_draws = draws_;
  state.options_digest = options_.options_digest;
  state.data = std::make_shared<const nlohmann::json>(data_.save());
  return save_checkpoint(folder, weight_tensors(executor_),
                         optimizer_tensors(executor_, *optimizer_), state);
}

Status Trainer::resume(const std::string& folder) {
  MEZZO_ASSIGN_OR_RETURN(const Checkpoint checkpoint, load_checkpoint(folder));
  if (checkpoint.state.options_digest != options_.options_digest) {
    return invalid_argument(
        folder +
        ": was saved by a run with other options (model, data, precision or optimizer). "
        "Hint: resume with the options the run was started with");
  }
  MEZZO_RETURN_IF_ERROR(restore_tensors(checkpoint.model, weight_tensors(executor_)));
  MEZZO_RETURN_IF_ERROR(
      restore_tensors(checkpoint.optimizer, optimizer_tensors(executor_, *optimizer_)));
  if (checkpoint.state.data) MEZZO_RETURN_IF_ERROR(data_.load(*checkpoint.state.data));
  scaler_ = checkpoint.state.loss_scaler;
  step_ = checkpoint.state.step;
  draws_ = checkpoint.state.rng_draws;
  options_.seed = checkpoint.state.rng_seed;
  optimizer_->set_applied_steps(checkpoint.state.applied_steps);
  optimizer_->refresh_low();
  return ok_status();
}

}  // namespace mezzo::runtime
