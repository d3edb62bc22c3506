#include "runtime/exec/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "runtime/io/npz.h"
#include "runtime/train/padded_copy.h"

namespace mezzo::runtime {
namespace {

std::int64_t elems(const Executor& executor, int tensor) {
  return static_cast<std::int64_t>(executor.bytes(tensor) / sizeof(float));
}

bool is_float32(const proto::Plan& plan, int tensor) {
  return plan.tensors(tensor).dtype() == static_cast<std::uint32_t>(DType::kFloat32);
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
                 LrSchedule schedule, LossScaler scaler)
    : executor_(executor),
      data_(data),
      options_(options),
      schedule_(schedule),
      scaler_(std::move(scaler)) {}

StatusOr<std::unique_ptr<Trainer>> Trainer::create(Executor& executor, Dataset& data,
                                                   const TrainerOptions& options) {
  if (!executor.plan().has_training()) {
    return invalid_argument(
        "the plan has no training part. Hint: `mezzo train` compiles its own from the .onnx file");
  }
  if (options.accumulate < 1) return invalid_argument("--accumulate: expected at least 1");
  MEZZO_ASSIGN_OR_RETURN(LrSchedule schedule, LrSchedule::create(options.schedule));
  MEZZO_ASSIGN_OR_RETURN(LossScaler scaler, LossScaler::create(options.loss_scale));
  std::unique_ptr<Trainer> trainer(
      new Trainer(executor, data, options, schedule, std::move(scaler)));
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

// Connects the plan's tensors with optimizer, data and states, once.
Status Trainer::bind() {
  const proto::Plan& plan = executor_.plan();
  MEZZO_RETURN_IF_ERROR(check_batches(data_));
  for (const proto::Port& port : plan.inputs())
    input_buffers_.push_back(executor_.data(port.tensor()));
  std::vector<OptimizerParameter> parameters;
  for (const proto::Parameter& p : plan.parameters()) {
    if (p.gradient() < 0) continue;
    OptimizerParameter parameter;
    parameter.name = p.name();
    parameter.elems = elems(executor_, p.master());
    parameter.master = executor_.data_as<float>(p.master());
    parameter.grad = executor_.data_as<float>(p.gradient());
    if (options_.accumulate > 1) {
      accumulators_.emplace_back(static_cast<std::size_t>(parameter.elems), 0.0F);
      parameter.grad = accumulators_.back().data();
    }
    if (p.low_copy() >= 0) {
      parameter.low = executor_.data_as<std::uint16_t>(p.low_copy());
      parameter.low_dtype = static_cast<DType>(plan.tensors(p.low_copy()).dtype());
    }
    parameters.push_back(std::move(parameter));
  }
  MEZZO_ASSIGN_OR_RETURN(
      optimizer_, Optimizer::create({options_.optimizer}, std::move(parameters), {options_.threads, 0.0}));
  optimizer_->refresh_low();
  for (const proto::State& state : plan.states()) {
    if (!is_float32(plan, state.tensor()) || !is_float32(plan, state.next())) {
      return unimplemented("state '" + state.name() + "': expected float");
    }
    states_.push_back(
        {executor_.data_as<float>(state.tensor()), executor_.data_as<float>(state.next()),
         std::vector<float>(static_cast<std::size_t>(elems(executor_, state.tensor())))});
  }
  return ok_status();
}

Status Trainer::run_micro_batch(std::int64_t index, double& loss_sum) {
  const proto::Training& training = executor_.plan().training();
  data_.next(input_buffers_);
  *executor_.data_as<float>(training.loss_gradient()) =
      scaler_.scale() / static_cast<float>(options_.accumulate);
  if (training.random_counter() >= 0) {
    *executor_.data_as<std::int64_t>(training.random_counter()) =
        static_cast<std::int64_t>(options_.seed * 0x9E3779B97F4A7C15U + draws_);
  }
  ++draws_;
  MEZZO_RETURN_IF_ERROR(executor_.run(proto::PHASE_FORWARD));
  MEZZO_RETURN_IF_ERROR(executor_.run(proto::PHASE_BACKWARD));
  loss_sum += static_cast<double>(*executor_.data_as<float>(training.loss()));
  if (options_.accumulate > 1) accumulate_gradients(index == 0);
  advance_states();
  return ok_status();
}

void Trainer::accumulate_gradients(bool first) {
  std::size_t n = 0;
  for (const proto::Parameter& p : executor_.plan().parameters()) {
    if (p.gradient() < 0) continue;
    std::vector<float>& sum = accumulators_[n++];
    const float* gradient = executor_.data_as<float>(p.gradient());
    if (first) {
      std::copy_n(gradient, sum.size(), sum.begin());
    } else {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    }
  }
}

void Trainer::snapshot_states() {
  for (StateBuffers& state : states_)
    std::copy_n(state.current, state.before.size(), state.before.begin());
}
void Trainer::restore_states() {
  for (StateBuffers& state : states_)
    std::copy(state.before.begin(), state.before.end(), state.current);
}
void Trainer::advance_states() {
  for (StateBuffers& state : states_) std::copy_n(state.next, state.before.size(), state.current);
}

StatusOr<StepMetrics> Trainer::step() {
  const auto start = std::chrono::steady_clock::now();
  StepMetrics metrics;
  metrics.step = ++step_;
  metrics.loss_scale = scaler_.scale();
  metrics.lr = schedule_.rate(optimizer_->applied_steps());
  snapshot_states();
  double loss_sum = 0;
  for (std::int64_t i = 0; i < options_.accumulate; ++i)
    MEZZO_RETURN_IF_ERROR(run_micro_batch(i, loss_sum));
  metrics.loss = static_cast<float>(loss_sum / static_cast<double>(options_.accumulate));
  if (step_ == options_.save_gradients_step) MEZZO_RETURN_IF_ERROR(save_gradients());
  const GradientStats stats = optimizer_->measure();
  const float inverse_scale = scaler_.inverse_scale();
  metrics.skipped = stats.found_inf(inverse_scale);
  if (metrics.skipped) {
    restore_states();
    if (options_.abort_on_overflow) {
      return invalid_argument("step " + std::to_string(step_) +
                              ": the gradients hold inf or NaN (--on-overflow abort)");
    }
  } else {
    metrics.grad_norm = stats.norm(inverse_scale);
    optimizer_->step(stats, {schedule_.factor(optimizer_->applied_steps()), inverse_scale,
                             options_.clip_norm, options_.clip_value});
  }
  scaler_.update(metrics.skipped, std::isfinite(metrics.loss));
  MEZZO_RETURN_IF_ERROR(scaler_.check_progress());
  metrics.step_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return metrics;
}

// Unscaled FP32 gradients in logical shapes, under their parameters' names.
Status Trainer::save_gradients() const {
  MEZZO_ASSIGN_OR_RETURN(NpzWriter writer, NpzWriter::create(options_.out + "/gradients_" +
                                                             std::to_string(step_) + ".npz"));
  std::size_t n = 0;
  const proto::Plan& plan = executor_.plan();
  for (const proto::Parameter& p : plan.parameters()) {
    if (p.gradient() < 0) continue;
    const float* scaled =
        options_.accumulate > 1 ? accumulators_[n].data() : executor_.data_as<float>(p.gradient());
    ++n;
    const std::vector<std::int64_t> shape(p.logical_dims().begin(), p.logical_dims().end());
    const auto& padded = plan.tensors(p.gradient()).dims();
    std::vector<float> gradient(static_cast<std::size_t>(
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
    copy_without_padding(scaled, std::vector<std::int64_t>(padded.begin(), padded.end()),
                         gradient.data(), shape);
    for (float& g : gradient) g *= scaler_.inverse_scale();
    MEZZO_RETURN_IF_ERROR(
        writer.add(p.name(), DType::kFloat32, shape, std::as_bytes(std::span(gradient))));
  }
  return writer.commit();
}

}  // namespace mezzo::runtime
