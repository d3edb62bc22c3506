#include "runtime/exec/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/formulas/training_step.h"
#include "runtime/io/npz.h"
#include "runtime/train/padded_copy.h"

namespace mezzo::runtime {
namespace {

// Fewer additions than this are done before other threads are awake.
constexpr std::int64_t kParallelElems = 1 << 16;

}  // namespace

Status Trainer::run_micro_batch(std::int64_t index, double& loss_sum) {
  const proto::Training& training = executor_.plan().training();
  data_.next(input_buffers_);
  *executor_.data_as<float>(training.loss_gradient()) =
      scaler_.scale() / static_cast<float>(options_.accumulate);
  if (training.random_counter() >= 0) {
    *executor_.data_as<std::int64_t>(training.random_counter()) =
        kernels::random_counter_of(options_.seed, draws_);
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
      continue;
    }
    float* total = sum.data();
    const auto elems = static_cast<std::int64_t>(sum.size());
#pragma omp parallel for num_threads(options_.threads) if (elems > kParallelElems)
    for (std::int64_t i = 0; i < elems; ++i) total[i] += gradient[i];
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

GradientStats Trainer::measure(StepMetrics& metrics) {
  GradientStats total;
  const float inverse_scale = scaler_.inverse_scale();
  metrics.skipped = true;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    unit.stats = unit.optimizer.measure();
    unit.overflow = unit.stats.found_inf(inverse_scale);
    if (unit.overflow) {
      metrics.skipped_optimizers |= std::uint64_t{1} << i;
    } else {
      total.sum_of_squares += unit.stats.sum_of_squares;
      metrics.skipped = false;
    }
  }
  if (!metrics.skipped) metrics.grad_norm = total.norm(inverse_scale);
  return total;
}

void Trainer::apply(const GradientStats& stats) {
  for (Unit& unit : units_) {
    if (unit.overflow) continue;
    unit.optimizer.step(stats, {schedule_.factor(unit.optimizer.applied_steps()),
                                scaler_.inverse_scale(), options_.clip_norm, options_.clip_value});
  }
}

// A step that cannot be run to its end leaves running statistics as they were before.
Status Trainer::run_micro_batches(double& loss_sum) {
  snapshot_states();
  for (std::int64_t i = 0; i < options_.accumulate; ++i) {
    Status status = run_micro_batch(i, loss_sum);
    if (status.ok()) continue;
    restore_states();
    return status;
  }
  return ok_status();
}

StatusOr<StepMetrics> Trainer::step(std::int64_t last) {
  return device_ == nullptr ? host_step() : device_step(std::max(last, step_ + 1));
}

StatusOr<StepMetrics> Trainer::host_step() {
  const auto start = std::chrono::steady_clock::now();
  StepMetrics metrics;
  metrics.step = ++step_;
  metrics.loss_scale = scaler_.scale();
  metrics.lr = schedule_.rate(units_.front().optimizer.applied_steps());
  double loss_sum = 0;
  MEZZO_RETURN_IF_ERROR(at_step(run_micro_batches(loss_sum)));
  metrics.loss = static_cast<float>(loss_sum / static_cast<double>(options_.accumulate));
  if (step_ == options_.save_gradients_step) MEZZO_RETURN_IF_ERROR(save_gradients());
  const GradientStats stats = measure(metrics);
  kernels::LossScaleState after = scaler_.state();  // the step itself is taken with the old one
  const kernels::StepDecision decision = kernels::decide_step(
      scaler_.options(), after, metrics.skipped_optimizers, static_cast<int>(units_.size()),
      metrics.loss, options_.abort_on_overflow);
  const bool abort = decision.verdict == kernels::StepVerdict::kAbort;
  metrics.skipped = decision.skipped;
  if (metrics.skipped) metrics.grad_norm.reset();
  if (!decision.keeps_states) restore_states();
  if (!abort) apply(stats);
  const Status aborted = abort ? check_overflow(metrics) : ok_status();
  scaler_.set_state(after);
  const Status verdict =
      decision.verdict == kernels::StepVerdict::kNoProgress ? no_progress() : aborted;
  metrics.step_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  last_step_ = metrics;
  if (!verdict.ok()) return verdict;
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
        accumulators_.empty() ? executor_.data_as<float>(p.gradient()) : accumulators_[n].data();
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
