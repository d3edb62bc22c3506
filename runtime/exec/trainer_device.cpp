// Training on a device: the host launches steps, hears of them later and keeps copies of what the
// device holds for checkpoints, evaluation and messages.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "runtime/exec/trainer.h"

namespace mezzo::runtime {
namespace {

double ms_between(std::chrono::steady_clock::time_point from,
                  std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

DeviceTrainingSpec::Parameter device_parameter(const Executor& executor, const proto::Parameter& p,
                                               const OptimizerParameter& parameter) {
  DeviceTrainingSpec::Parameter row;
  row.elems = parameter.elems;
  row.master = executor.device_data(p.master());
  row.gradient = executor.device_data(p.gradient());
  if (p.low_copy() >= 0) row.low = executor.device_data(p.low_copy());
  row.low_dtype = parameter.low_dtype;
  row.has_first = parameter.first != nullptr;
  row.has_second = parameter.second != nullptr;
  return row;
}

}  // namespace

DeviceTrainingSpec Trainer::device_spec() const {
  const proto::Plan& plan = executor_.plan();
  const proto::Training& training = plan.training();
  DeviceTrainingSpec spec;
  std::unordered_map<std::string_view, const proto::Parameter*> by_name;
  for (const proto::Parameter& p : plan.parameters()) by_name.emplace(p.name(), &p);
  spec.optimizers = static_cast<int>(units_.size());
  for (int i = 0; i < spec.optimizers; ++i) {
    const Optimizer& optimizer = units_[static_cast<std::size_t>(i)].optimizer;
    const auto first_group = static_cast<int>(spec.groups.size());
    for (const OptimizerGroup& group : optimizer.groups())
      spec.groups.push_back({group, group.frozen ? -1 : i});
    for (const OptimizerParameter& parameter : optimizer.parameters()) {
      spec.parameters.push_back(
          device_parameter(executor_, *by_name.at(parameter.name), parameter));
      spec.parameters.back().group = first_group + parameter.group;
    }
  }
  for (const proto::State& state : plan.states()) {
    spec.states.push_back({static_cast<std::int64_t>(executor_.bytes(state.tensor()) / 4),
                           executor_.device_data(state.tensor()),
                           executor_.device_data(state.next())});
  }
  for (const proto::Port& port : plan.inputs())
    spec.inputs.push_back({executor_.device_data(port.tensor()), executor_.bytes(port.tensor())});
  spec.loss = executor_.device_data(training.loss());
  spec.loss_gradient = executor_.device_data(training.loss_gradient());
  if (training.random_counter() >= 0)
    spec.random_counter = executor_.device_data(training.random_counter());
  spec.fault = executor_.device_fault();
  spec.loss_scale = scaler_.options();
  spec.schedule = schedule_.options();
  spec.accumulate = options_.accumulate;
  spec.clip_norm = options_.clip_norm;
  spec.clip_value = options_.clip_value;
  spec.average_decay = options_.average_decay;
  spec.abort_on_overflow = options_.abort_on_overflow;
  return spec;
}

// Where the host keeps optimizer state, in the spec's order.
std::vector<HostParameter> Trainer::host_parameters() {
  std::vector<HostParameter> rows;
  for (Unit& unit : units_) {
    const std::size_t begin = rows.size();
    for (const OptimizerParameter& parameter : unit.optimizer.parameters())
      rows.push_back({parameter.first, parameter.second, nullptr});
    for (const Optimizer::State& average : unit.optimizer.averages())
      rows[begin + average.parameter].average = average.values.data();
  }
  return rows;
}

Status Trainer::upload_weights() {
  for (const proto::Parameter& p : executor_.plan().parameters())
    MEZZO_RETURN_IF_ERROR(executor_.upload(p.master()));
  for (const proto::State& s : executor_.plan().states())
    MEZZO_RETURN_IF_ERROR(executor_.upload(s.tensor()));
  return ok_status();
}

Status Trainer::to_device() {
  if (device_ == nullptr || newer_ != Newer::kHost) return ok_status();
  MEZZO_RETURN_IF_ERROR(upload_weights());
  kernels::TrainingProgress progress;
  progress.scale = scaler_.state();
  progress.step = step_;
  progress.seed = options_.seed;
  progress.draws = draws_;
  for (std::size_t i = 0; i < units_.size(); ++i)
    progress.applied_steps[i] = units_[i].optimizer.applied_steps();
  MEZZO_RETURN_IF_ERROR(device_->training().put(progress, host_parameters()));
  newer_ = Newer::kNeither;
  return ok_status();
}

Status Trainer::to_host() {
  if (device_ == nullptr || newer_ != Newer::kDevice) return ok_status();
  MEZZO_RETURN_IF_ERROR(device_error_);
  if (device_->in_flight() > 0) return internal_error("training steps are in flight");
  const proto::Plan& plan = executor_.plan();
  for (const proto::Parameter& p : plan.parameters()) {
    MEZZO_RETURN_IF_ERROR(executor_.download(p.master()));
    if (p.low_copy() >= 0) MEZZO_RETURN_IF_ERROR(executor_.download(p.low_copy()));
  }
  for (const proto::State& s : plan.states()) MEZZO_RETURN_IF_ERROR(executor_.download(s.tensor()));
  MEZZO_RETURN_IF_ERROR(device_->training().get(host_parameters()));
  newer_ = Newer::kNeither;
  return ok_status();
}

// Gradients as the update saw them, to where the host looks for them.
Status Trainer::download_gradients() {
  std::size_t index = 0;
  for (Unit& unit : units_) {
    for (const OptimizerParameter& parameter : unit.optimizer.parameters()) {
      float* const to = const_cast<float*>(parameter.grad);  // ours: see optimizer_parameters()
      MEZZO_RETURN_IF_ERROR(device_->training().read_gradient(
          index++, {to, static_cast<std::size_t>(parameter.elems)}));
    }
  }
  return ok_status();
}

// A step was begun and not ended: host and device no longer count alike, so that nothing of the
// device is looked at or saved.
Status Trainer::broken_off(const Status& error) {
  newer_ = Newer::kDevice;
  device_error_ = at_step(error);
  return device_error_;
}

// Training stops or a launch went wrong: what is still in flight changed nothing, and its batches
// are given out again.
Status Trainer::drain() {
  while (device_->in_flight() > 0) {
    const Status finished = device_->finish().status();
    if (!finished.ok()) return broken_off(finished);
  }
  data_.rewind(finished_position_);
  launched_positions_.clear();
  MEZZO_RETURN_IF_ERROR(to_host());
  newer_ = Newer::kHost;  // which also lets the device go on
  return ok_status();
}

// Launches up to the step `last`, as far ahead as can be.
Status Trainer::launch_until(std::int64_t last) {
  if (step_ < options_.save_gradients_step) last = std::min(last, options_.save_gradients_step);
  while (device_->in_flight() < DeviceTraining::kMostInFlight &&
         step_ + device_->in_flight() < last) {
    newer_ = Newer::kDevice;
    MEZZO_RETURN_IF_ERROR(device_->launch(data_));
    launched_positions_.push_back(data_.position());
  }
  return ok_status();
}

StatusOr<StepMetrics> Trainer::device_step(std::int64_t last) {
  MEZZO_RETURN_IF_ERROR(device_error_);
  if (device_->in_flight() == 0) {
    MEZZO_RETURN_IF_ERROR(to_device());
    finished_position_ = data_.position();
    finished_at_ = std::chrono::steady_clock::now();
  }
  if (launch_error_.ok()) launch_error_ = launch_until(last);
  if (device_->in_flight() == 0) {
    const Status error = std::exchange(launch_error_, ok_status());
    ++step_;
    if (error.code() == StatusCode::kInternal) return broken_off(error);
    const Status drained = drain();  // which says less than the first error
    return drained.ok() || !error.ok() ? at_step(error) : drained;
  }
  const StatusOr<kernels::StepRecord> record = device_->finish();
  if (!record.ok()) {
    ++step_;
    return broken_off(record.status());
  }
  return finish_step(*record);
}

StatusOr<StepMetrics> Trainer::finish_step(const kernels::StepRecord& record) {
  step_ = record.step;
  finished_position_ = launched_positions_.front();
  launched_positions_.pop_front();
  StepMetrics metrics;
  metrics.step = record.step;
  metrics.loss = record.loss;
  metrics.lr = record.lr;
  metrics.loss_scale = record.loss_scale;
  metrics.skipped = record.decision.skipped;
  metrics.skipped_optimizers = record.overflowed;
  if (!metrics.skipped) metrics.grad_norm = record.grad_norm;
  if (record.decision.verdict == kernels::StepVerdict::kFault) {
    MEZZO_RETURN_IF_ERROR(drain());
    return at_step(executor_.explain(record.fault));
  }
  draws_ = record.after.draws;
  if (step_ == options_.save_gradients_step) {  // the scale is still that of the step
    MEZZO_RETURN_IF_ERROR(download_gradients());
    MEZZO_RETURN_IF_ERROR(save_gradients());
  }
  for (std::size_t i = 0; i < units_.size(); ++i) {
    units_[i].overflow = (record.overflowed >> i & 1) != 0;
    units_[i].optimizer.set_applied_steps(record.after.applied_steps[i]);
  }
  Status verdict = ok_status();
  if (record.decision.verdict == kernels::StepVerdict::kAbort) verdict = check_overflow(metrics);
  scaler_.set_state(record.after.scale);
  if (record.decision.verdict == kernels::StepVerdict::kNoProgress) verdict = no_progress();
  const auto now = std::chrono::steady_clock::now();
  metrics.step_ms = ms_between(finished_at_, now);
  finished_at_ = now;
  last_step_ = metrics;
  if (verdict.ok()) return metrics;
  MEZZO_RETURN_IF_ERROR(drain());
  return verdict;
}

std::string Trainer::why_no_graph() const {
  return device_ != nullptr ? device_->why_no_graph() : std::string();
}

}  // namespace mezzo::runtime
