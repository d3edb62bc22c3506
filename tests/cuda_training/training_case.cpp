#include "tests/cuda_training/training_case.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/train/random.h"
#include "tests/support/status_test.h"

namespace mezzo::test {

using runtime::DeviceTrainingSpec;
using runtime::Optimizer;
using runtime::OptimizerParameter;

std::vector<float> case_floats(std::int64_t elems, std::uint64_t seed) {
  runtime::SplitMix64 random(seed);
  std::vector<float> values(static_cast<std::size_t>(elems));
  for (float& value : values)
    value = static_cast<float>(random.below(1 << 24)) / static_cast<float>(1 << 23) - 1.0F;
  return values;
}

StatusOr<std::unique_ptr<TrainingCase>> TrainingCase::create(runtime::Device& device,
                                                             const TrainingCaseOptions& options) {
  std::unique_ptr<TrainingCase> result(new TrainingCase(device, options));
  MEZZO_RETURN_IF_ERROR(result->make_host());
  MEZZO_RETURN_IF_ERROR(result->make_device());
  return result;
}

StatusOr<TrainingCase::Tensor> TrainingCase::tensor(std::int64_t elems, std::uint64_t seed) {
  Tensor result{case_floats(elems, seed), nullptr};
  const std::uint64_t bytes = result.host.size() * sizeof(float);
  MEZZO_ASSIGN_OR_RETURN(result.device, device_.allocate(bytes, "a tensor"));
  MEZZO_RETURN_IF_ERROR(device_.copy_to_device(result.device->data(), result.host.data(), bytes));
  return result;
}

Status TrainingCase::make_host() {
  MEZZO_ASSIGN_OR_RETURN(scaler_, runtime::LossScaler::create(options_.loss_scale));
  MEZZO_ASSIGN_OR_RETURN(const auto schedule, runtime::LrSchedule::create(options_.schedule));
  schedule_ = std::make_unique<runtime::LrSchedule>(schedule);
  std::uint64_t seed = 1;
  for (const CaseParameter& p : options_.parameters) {
    MEZZO_ASSIGN_OR_RETURN(Tensor master, tensor(p.elems, seed++));
    MEZZO_ASSIGN_OR_RETURN(Tensor gradient, tensor(p.elems, seed++));
    masters_.push_back(std::move(master));
    gradients_.push_back(std::move(gradient));
    host_low_.emplace_back(static_cast<std::size_t>(p.elems));
  }
  for (const std::int64_t elems : options_.states) {
    MEZZO_ASSIGN_OR_RETURN(Tensor current, tensor(elems, seed++));
    MEZZO_ASSIGN_OR_RETURN(Tensor next, tensor(elems, seed++));
    current_.push_back(std::move(current));
    next_.push_back(std::move(next));
  }
  for (int unit = 0; unit < options_.optimizers; ++unit) {
    std::vector<kernels::OptimizerGroup> groups;
    std::vector<int> numbers(options_.groups.size(), -1);
    for (std::size_t g = 0; g < options_.groups.size(); ++g) {
      if (options_.groups[g].optimizer != unit) continue;
      numbers[g] = static_cast<int>(groups.size());
      groups.push_back(options_.groups[g].settings);
    }
    std::vector<OptimizerParameter> parameters;
    members_.emplace_back();
    for (std::size_t i = 0; i < options_.parameters.size(); ++i) {
      const CaseParameter& p = options_.parameters[i];
      const int group = numbers[static_cast<std::size_t>(p.group)];
      if (group < 0) continue;
      OptimizerParameter parameter;
      parameter.name = "p" + std::to_string(i);
      parameter.group = group;
      parameter.elems = p.elems;
      parameter.master = masters_[i].host.data();
      parameter.grad = gradients_[i].host.data();
      parameter.low = p.low == DType::kNone ? nullptr : host_low_[i].data();
      parameter.low_dtype = p.low;
      parameters.push_back(std::move(parameter));
      members_.back().push_back(i);
    }
    MEZZO_ASSIGN_OR_RETURN(
        Optimizer optimizer,
        Optimizer::create(std::move(groups), std::move(parameters), {1, options_.average_decay}));
    optimizer.refresh_low();
    optimizers_.push_back(std::move(optimizer));
  }
  return ok_status();
}

Status TrainingCase::make_device() {
  MEZZO_ASSIGN_OR_RETURN(loss_, device_.allocate(4, "loss"));
  MEZZO_ASSIGN_OR_RETURN(loss_gradient_, device_.allocate(4, "loss gradient"));
  MEZZO_ASSIGN_OR_RETURN(counter_, device_.allocate(8, "counter"));
  MEZZO_ASSIGN_OR_RETURN(fault_, device_.allocate(sizeof(kernels::DeviceFault), "fault"));
  DeviceTrainingSpec spec;
  for (const CaseGroup& group : options_.groups)
    spec.groups.push_back({group.settings, group.settings.frozen ? -1 : group.optimizer});
  std::vector<runtime::HostParameter> host(options_.parameters.size());
  for (std::size_t i = 0; i < options_.parameters.size(); ++i) {
    const CaseParameter& p = options_.parameters[i];
    MEZZO_ASSIGN_OR_RETURN(auto low, device_.allocate(2 * host_low_[i].size(), "low copy"));
    device_low_.push_back(std::move(low));
    DeviceTrainingSpec::Parameter row;
    row.elems = p.elems;
    row.master = masters_[i].device->data();
    row.gradient = gradients_[i].device->data();
    row.low = p.low == DType::kNone ? nullptr : device_low_[i]->data();
    row.low_dtype = p.low;
    row.group = p.group;
    spec.parameters.push_back(row);
  }
  for (std::size_t unit = 0; unit < optimizers_.size(); ++unit) {
    for (std::size_t k = 0; k < members_[unit].size(); ++k) {
      const OptimizerParameter& p = optimizers_[unit].parameters()[k];
      const std::size_t i = members_[unit][k];
      spec.parameters[i].has_first = p.first != nullptr;
      spec.parameters[i].has_second = p.second != nullptr;
      host[i].first = p.first;
      host[i].second = p.second;
    }
  }
  for (std::size_t i = 0; i < current_.size(); ++i) {
    spec.states.push_back(
        {options_.states[i], current_[i].device->data(), next_[i].device->data()});
  }
  spec.optimizers = options_.optimizers;
  spec.loss = loss_->data();
  spec.loss_gradient = loss_gradient_->data();
  spec.random_counter = counter_->data();
  spec.fault = fault_->data();
  spec.loss_scale = options_.loss_scale;
  spec.schedule = options_.schedule;
  spec.accumulate = options_.accumulate;
  spec.clip_norm = options_.clip_norm;
  spec.clip_value = options_.clip_value;
  spec.average_decay = options_.average_decay;
  spec.abort_on_overflow = options_.abort_on_overflow;
  MEZZO_ASSIGN_OR_RETURN(training_, device_.create_training(spec));
  kernels::TrainingProgress progress;
  progress.scale = scaler_.state();
  progress.seed = 7;
  return training_->put(progress, host);
}

std::vector<float> TrainingCase::download(const runtime::DeviceMemory& memory, std::size_t elems) {
  std::vector<float> values(elems);
  EXPECT_THAT(device_.copy_to_host(values.data(), memory.data(), elems * sizeof(float)), IsOk());
  return values;
}
std::vector<float> TrainingCase::device_weights(std::size_t i) {
  return download(*masters_[i].device, masters_[i].host.size());
}
std::vector<float> TrainingCase::device_statistics(std::size_t i) {
  return download(*current_[i].device, current_[i].host.size());
}

void TrainingCase::launch_on_device(const std::vector<MicroBatch>& batches) {
  const auto upload = [&](const runtime::DeviceMemory& to, const std::vector<float>& values) {
    ASSERT_THAT(device_.copy_to_device(to.data(), values.data(), values.size() * sizeof(float)),
                IsOk());
  };
  for (const MicroBatch& batch : batches) {
    ASSERT_THAT(training_->enqueue_begin(), IsOk());
    const float factor = download(*loss_gradient_, 1)[0];
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      std::vector<float> scaled = batch.gradients[i];
      for (float& g : scaled) g *= factor;
      upload(*gradients_[i].device, scaled);
    }
    for (std::size_t i = 0; i < next_.size(); ++i) upload(*next_[i].device, batch.statistics[i]);
    upload(*loss_, {batch.loss});
    if (options_.accumulate > 1) {
      ASSERT_THAT(training_->enqueue_end(), IsOk());
    }
  }
  ASSERT_THAT(training_->enqueue_update(), IsOk());
  ASSERT_THAT(training_->enqueue_record(), IsOk());
}

// As the trainer does it on the CPU.
TrainingCase::HostResult TrainingCase::step_on_host(const std::vector<MicroBatch>& batches) {
  HostResult result;
  if (halted_) return result;
  std::vector<std::vector<float>> before;
  for (const Tensor& state : current_) before.push_back(state.host);
  const float factor = scaler_.scale() / static_cast<float>(options_.accumulate);
  double loss = 0;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      for (std::size_t k = 0; k < gradients_[i].host.size(); ++k) {
        const float scaled = batches[b].gradients[i][k] * factor;
        float& sum = gradients_[i].host[k];
        sum = b == 0 ? scaled : sum + scaled;
      }
    }
    loss += static_cast<double>(batches[b].loss);
    for (std::size_t i = 0; i < current_.size(); ++i) current_[i].host = batches[b].statistics[i];
  }
  result.loss = static_cast<float>(loss / static_cast<double>(options_.accumulate));
  runtime::GradientStats total;
  std::vector<bool> steps;
  result.skipped = true;
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    const runtime::GradientStats stats = optimizers_[i].measure();
    steps.push_back(!stats.found_inf(scaler_.inverse_scale()));
    if (!steps.back()) result.overflowed |= std::uint64_t{1} << i;
    if (steps.back()) total.sum_of_squares += stats.sum_of_squares;
    if (steps.back()) result.skipped = false;
  }
  result.norm = total.norm(scaler_.inverse_scale());
  const bool overflow = result.overflowed != 0, finite = std::isfinite(result.loss);
  result.abort = options_.abort_on_overflow && (overflow || !finite);
  result.skipped = result.skipped || result.abort;
  for (std::size_t i = 0; i < current_.size() && (overflow || result.abort); ++i)
    current_[i].host = before[i];
  for (std::size_t i = 0; i < optimizers_.size() && !result.abort; ++i) {
    if (!steps[i]) continue;
    optimizers_[i].step(total, {schedule_->factor(optimizers_[i].applied_steps()),
                                scaler_.inverse_scale(), options_.clip_norm, options_.clip_value});
  }
  scaler_.update(overflow || result.abort, finite);
  result.no_progress = !result.abort && !scaler_.check_progress().ok();
  halted_ = result.abort || result.no_progress;
  return result;
}

void TrainingCase::compare_record(const kernels::StepRecord& record, const HostResult& host,
                                  double tolerance) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(record.loss), std::bit_cast<std::uint32_t>(host.loss));
  EXPECT_EQ(record.overflowed, host.overflowed);
  EXPECT_EQ(record.decision.skipped, host.skipped);
  if (!host.skipped) {
    EXPECT_NEAR(record.grad_norm, host.norm, 1e-12 * host.norm);
  }
  const kernels::StepVerdict expected = host.abort         ? kernels::StepVerdict::kAbort
                                        : host.no_progress ? kernels::StepVerdict::kNoProgress
                                                           : kernels::StepVerdict::kGoOn;
  EXPECT_EQ(record.decision.verdict, expected);
  const kernels::LossScaleState& a = record.after.scale;
  const kernels::LossScaleState& b = scaler_.state();
  EXPECT_EQ(a.scale, b.scale);
  EXPECT_EQ(a.clean_steps, b.clean_steps);
  EXPECT_EQ(a.hysteresis_left, b.hysteresis_left);
  EXPECT_EQ(a.skipped_steps, b.skipped_steps);
  EXPECT_EQ(a.stuck_steps, b.stuck_steps);
  EXPECT_EQ(a.skips_in_row, b.skips_in_row);
  EXPECT_EQ(a.nonfinite_losses, b.nonfinite_losses);
  for (std::size_t i = 0; i < optimizers_.size(); ++i)
    EXPECT_EQ(record.after.applied_steps[i], optimizers_[i].applied_steps());
  compare_tensors(tolerance);
}

void TrainingCase::compare(const std::string& what, const std::vector<float>& device,
                           const std::vector<float>& host, double tolerance) {
  double largest = 0;
  for (const float value : host) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  for (std::size_t i = 0; i < host.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(device[i]) == std::bit_cast<std::uint32_t>(host[i])) continue;
    const double error = std::fabs(static_cast<double>(device[i]) - static_cast<double>(host[i]));
    ASSERT_LE(error, tolerance * largest)
        << what << " element " << i << ": " << device[i] << " on the device, " << host[i];
  }
}

void TrainingCase::compare_tensors(double tolerance) {
  std::vector<runtime::HostParameter> rows(masters_.size());
  std::vector<std::vector<float>> first, second, average;
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    for (auto* list : {&first, &second, &average}) list->emplace_back(masters_[i].host.size());
    rows[i] = {first[i].data(), second[i].data(), average[i].data()};
  }
  ASSERT_THAT(training_->get(rows), IsOk());
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    const std::string name = "p" + std::to_string(i);
    compare(name + " weights", device_weights(i), masters_[i].host, tolerance);
    if (options_.parameters[i].low == DType::kNone || tolerance > 0) continue;
    std::vector<std::uint16_t> low(host_low_[i].size());
    ASSERT_THAT(device_.copy_to_host(low.data(), device_low_[i]->data(), 2 * low.size()), IsOk());
    EXPECT_EQ(low, host_low_[i]) << name;
  }
  for (std::size_t unit = 0; unit < optimizers_.size(); ++unit) {
    for (const Optimizer::State& state : optimizers_[unit].states()) {
      const std::size_t i = members_[unit][state.parameter];
      const bool is_first = state.name != "exp_avg_sq";
      compare("p" + std::to_string(i) + " " + std::string(state.name),
              is_first ? first[i] : second[i], {state.values.begin(), state.values.end()},
              tolerance);
    }
    if (optimizers_[unit].applied_steps() == 0) continue;
    for (const Optimizer::State& state : optimizers_[unit].averages()) {
      const std::size_t i = members_[unit][state.parameter];
      compare("p" + std::to_string(i) + " average", average[i],
              {state.values.begin(), state.values.end()}, tolerance);
    }
  }
  for (std::size_t i = 0; i < current_.size(); ++i)
    compare("state " + std::to_string(i), device_statistics(i), current_[i].host, 0);
}

kernels::StepRecord TrainingCase::step(const std::vector<MicroBatch>& batches, double tolerance) {
  const bool was_halted = halted_;
  launch_on_device(batches);
  const kernels::StepRecord record = value_or_die(training_->take_record());
  const HostResult host = step_on_host(batches);
  if (was_halted) {
    EXPECT_EQ(record.decision.verdict, kernels::StepVerdict::kHalted);
    compare_tensors(tolerance);
  } else {
    compare_record(record, host, tolerance);
  }
  return record;
}

}  // namespace mezzo::test
