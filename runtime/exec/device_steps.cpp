#include "runtime/exec/device_steps.h"

#include <utility>

namespace mezzo::runtime {

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

Status DeviceSteps::launch(Dataset& data) {
  for (std::int64_t i = 0; i < accumulate_; ++i) {
    MEZZO_ASSIGN_OR_RETURN(const auto buffers, training_->batch_buffers());
    data.next(buffers);
    MEZZO_RETURN_IF_ERROR(training_->enqueue_batch());
    Status status = launch_micro_batch(i == accumulate_ - 1);
    if (!status.ok()) {
      MEZZO_RETURN_IF_ERROR(training_->enqueue_cancel());
      return status;
    }
  }
  MEZZO_RETURN_IF_ERROR(training_->enqueue_record());
  warm_ = true;
  ++in_flight_;
  return ok_status();
}

StatusOr<kernels::StepRecord> DeviceSteps::finish() {
  --in_flight_;
  return training_->take_record();
}

}  // namespace mezzo::runtime
