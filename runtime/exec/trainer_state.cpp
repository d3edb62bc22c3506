// Checkpoints of a trainer, and evaluation: what is not part of a step.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/exec/trainer.h"
#include "runtime/train/checkpoint.h"

namespace mezzo::runtime {
namespace {

template <typename Record>
PaddedTensor padded(const std::string& name, const Record& record, const proto::Tensor& tensor, float* values) {
  return {name, {record.logical_dims().begin(), record.logical_dims().end()}, {tensor.dims().begin(), tensor.dims().end()}, values};
}

std::vector<PaddedTensor> weight_tensors(const Executor& executor) {
  const proto::Plan& plan = executor.plan();
  std::vector<PaddedTensor> tensors;
  for (const proto::Parameter& p : plan.parameters()) {
    tensors.push_back(padded(p.name(), p, plan.tensors(p.master()), executor.data_as<float>(p.master())));
  }
  for (const proto::State& s : plan.states()) {
    tensors.push_back(padded(s.name(), s, plan.tensors(s.tensor()), executor.data_as<float>(s.tensor())));
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
    tensors.push_back(padded(p.name() + "." + std::string(state.name), p, plan.tensors(p.master()), state.values.data()));
  }
  return tensors;
}

// Class scores [N, C, ...] and labels [N, ...] among the ports, if the graph has such a pair.
struct ClassPorts {
  const proto::Port* scores = nullptr;
  const proto::Port* labels = nullptr;
};

ClassPorts find_class_ports(const proto::Plan& plan) {
  for (const proto::Port& output : plan.outputs()) {
    if (output.evaluate_tensor() < 0) continue;
    const proto::Tensor& scores = plan.tensors(output.evaluate_tensor());
    if (scores.dims_size() < 2 || scores.dtype() != static_cast<std::uint32_t>(DType::kFloat32)) continue;
    for (const proto::Port& input : plan.inputs()) {
      const proto::Tensor& labels = plan.tensors(input.tensor());
      const auto dtype = static_cast<DType>(labels.dtype());
      if (dtype != DType::kInt64 && dtype != DType::kInt32) continue;
      // [N, C] with [N]; of sequences [N, T, C] with [N, T]
      if (labels.dims_size() == scores.dims_size() - 1 &&
          std::equal(labels.dims().begin(), labels.dims().end(), scores.dims().begin())) {
        return {&output, &input};
      }
    }
  }
  return {};
}

// How many of the first `samples` samples have their highest score at the label.
std::int64_t count_hits(const Executor& executor, const ClassPorts& ports, std::int64_t samples, std::int64_t& places) {
  const proto::Tensor& scores = executor.plan().tensors(ports.scores->evaluate_tensor());
  const std::int64_t classes = ports.scores->logical_dims(ports.scores->logical_dims_size() - 1);
  const std::int64_t stride = scores.dims(scores.dims_size() - 1);
  std::int64_t per_sample = 1;
  for (int d = 1; d + 1 < scores.dims_size(); ++d) per_sample *= scores.dims(d);
  const float* row = executor.data_as<float>(ports.scores->evaluate_tensor());
  const bool wide = executor.plan().tensors(ports.labels->tensor()).dtype() == static_cast<std::uint32_t>(DType::kInt64);
  std::int64_t hits = 0;
  for (std::int64_t i = 0; i < samples * per_sample; ++i, row += stride) {
    const std::int64_t label = wide ? executor.data_as<std::int64_t>(ports.labels->tensor())[i]
                                    : executor.data_as<std::int32_t>(ports.labels->tensor())[i];
    hits += (std::max_element(row, row + classes) - row) == label ? 1 : 0;
  }
  places += samples * per_sample;
  return hits;
}

}  // namespace

StatusOr<Evaluation> Trainer::evaluate(const std::string& data_path) {
  const proto::Plan& plan = executor_.plan();
  const std::int64_t batch = plan_batch_size(plan);
  if (plan.training().evaluate_loss() < 0 || batch < 1) return invalid_argument("the plan has no evaluate phase");
  DatasetOptions options;
  options.batch_size = batch;
  options.shuffle = false;
  MEZZO_ASSIGN_OR_RETURN(Dataset data, Dataset::open(data_path, input_expectations(plan), options));
  const ClassPorts ports = find_class_ports(plan);
  Evaluation result;
  result.samples = data.samples();
  double loss_sum = 0;
  std::int64_t full_batches = 0, hits = 0, places = 0;
  for (std::int64_t done = 0; done < data.samples(); done += batch) {
    data.next(input_buffers_);
    MEZZO_RETURN_IF_ERROR(executor_.run(proto::PHASE_EVALUATE));
    // The last batch wraps around: its loss would count samples twice, unless it is all there is.
    const std::int64_t fresh = std::min(batch, data.samples() - done);
    if (fresh == batch || full_batches == 0) {
      loss_sum += static_cast<double>(*executor_.data_as<float>(plan.training().evaluate_loss()));
      ++full_batches;
    }
    if (ports.scores != nullptr) hits += count_hits(executor_, ports, fresh, places);
  }
  result.loss = loss_sum / static_cast<double>(full_batches);
  if (places > 0) result.accuracy = static_cast<double>(hits) / static_cast<double>(places);
  return result;
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
  return save_checkpoint(folder, weight_tensors(executor_), optimizer_tensors(executor_, *optimizer_), state);
}

Status Trainer::resume(const std::string& folder) {
  MEZZO_ASSIGN_OR_RETURN(const Checkpoint checkpoint, load_checkpoint(folder));
  if (checkpoint.state.options_digest != options_.options_digest) {
    return invalid_argument(folder + ": was saved by a run with other options (model, data, precision or optimizer). "
                            "Hint: resume with the options the run was started with");
  }
  MEZZO_RETURN_IF_ERROR(restore_tensors(checkpoint.model, weight_tensors(executor_)));
  MEZZO_RETURN_IF_ERROR(restore_tensors(checkpoint.optimizer, optimizer_tensors(executor_, *optimizer_)));
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
