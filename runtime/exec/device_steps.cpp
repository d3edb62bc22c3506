#include "runtime/exec/device_steps.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace mezzo::runtime {
namespace {

constexpr std::int64_t kFirstSteady = 3;
constexpr std::size_t kMostCosts = 1 << 16;  // of longer runs, the beginning

// Microseconds since it was made, or since the last time it was asked.
class Stopwatch {
 public:
  double lap_us() {
    const Clock::time_point before = std::exchange(start_, Clock::now());
    return std::chrono::duration<double, std::micro>(start_ - before).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

template <typename Get>
auto median(const std::vector<DeviceStepCost>& costs, const Get& get) {
  std::vector<decltype(get(costs.front()))> values;
  for (const DeviceStepCost& cost : costs) values.push_back(get(cost));
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

StatusOr<std::unique_ptr<DeviceSteps>> DeviceSteps::create(Executor& executor,
                                                           const DeviceTrainingSpec& spec,
                                                           bool with_graphs) {
  std::unique_ptr<DeviceSteps> steps(new DeviceSteps(executor));
  MEZZO_ASSIGN_OR_RETURN(steps->training_, executor.device()->create_training(spec));
  steps->accumulate_ = spec.accumulate;
  steps->why_no_graph_ = with_graphs ? executor.not_capturable() : "not asked for";
  return steps;
}

Status DeviceSteps::enqueue(bool last) {
  MEZZO_RETURN_IF_ERROR(training_->enqueue_begin());
  MEZZO_RETURN_IF_ERROR(executor_.run(proto::PHASE_FORWARD));
  MEZZO_RETURN_IF_ERROR(executor_.run(proto::PHASE_BACKWARD));
  if (accumulate_ > 1) MEZZO_RETURN_IF_ERROR(training_->enqueue_end());
  return last ? training_->enqueue_update() : ok_status();
}

StatusOr<std::unique_ptr<DeviceGraph>> DeviceSteps::capture(bool last) {
  Device& device = *executor_.device();
  MEZZO_RETURN_IF_ERROR(device.begin_capture());
  Status recorded = enqueue(last);
  auto graph = device.end_capture();  // also to leave the mode
  if (!recorded.ok()) return recorded;
  return graph;
}

Status DeviceSteps::launch_micro_batch(bool last) {
  std::unique_ptr<DeviceGraph>& graph = graphs_[last ? 1 : 0];
  if (graph == nullptr && warm_ && why_no_graph_.empty()) {
    auto captured = capture(last);
    if (captured.ok()) {
      graph = std::move(captured).value();
    } else {
      why_no_graph_ = captured.status().message();
    }
  }
  return graph != nullptr ? graph->launch() : enqueue(last);
}

Status DeviceSteps::launch_batches(Dataset& data, DeviceStepCost& cost) {
  Stopwatch watch;
  for (std::int64_t i = 0; i < accumulate_; ++i) {
    MEZZO_ASSIGN_OR_RETURN(const auto buffers, training_->batch_buffers());
    cost.wait_us += watch.lap_us();
    data.next(buffers);
    cost.batch_us += watch.lap_us();
    MEZZO_RETURN_IF_ERROR(training_->enqueue_batch());
    Status status = launch_micro_batch(i == accumulate_ - 1);
    if (!status.ok()) {
      MEZZO_RETURN_IF_ERROR(training_->enqueue_cancel());
      return status;
    }
    if (i == accumulate_ - 1) MEZZO_RETURN_IF_ERROR(training_->enqueue_record());
    cost.host_us += watch.lap_us();
  }
  return ok_status();
}

Status DeviceSteps::launch(Dataset& data) {
  DeviceStepCost cost;
  cost.wait_us = std::exchange(waited_us_, 0);
  MEZZO_RETURN_IF_ERROR(launch_batches(data, cost));
  const DeviceCounts calls = executor_.device()->counts();
  cost.calls = calls - calls_before_;
  calls_before_ = calls;
  if (++launched_ >= kFirstSteady && costs_.size() < kMostCosts) costs_.push_back(cost);
  warm_ = true;
  ++in_flight_;
  return ok_status();
}

StatusOr<kernels::StepRecord> DeviceSteps::finish() {
  --in_flight_;
  Stopwatch watch;
  auto record = training_->take_record();
  waited_us_ += watch.lap_us();
  return record;
}

std::optional<DeviceStepCost> DeviceSteps::cost() const {
  if (costs_.empty()) return std::nullopt;
  DeviceStepCost all;
  all.host_us = median(costs_, [](const auto& cost) { return cost.host_us; });
  all.batch_us = median(costs_, [](const auto& cost) { return cost.batch_us; });
  all.wait_us = median(costs_, [](const auto& cost) { return cost.wait_us; });
  all.calls.launches = median(costs_, [](const auto& cost) { return cost.calls.launches; });
  all.calls.copies = median(costs_, [](const auto& cost) { return cost.calls.copies; });
  all.calls.waits = median(costs_, [](const auto& cost) { return cost.calls.waits; });
  return all;
}

}  // namespace mezzo::runtime
