// Training steps in a device's stream: graphs where they can be, else single launches.
//
// The first step is launched call by call, so that libraries have made what they make at their
// first call; then the work between two batches is captured into a graph and launched as one. With
// several micro-batches there are two graphs: the last one has the update as well.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/status.h"
#include "runtime/device/device.h"
#include "runtime/device/device_training.h"
#include "runtime/exec/executor.h"
#include "runtime/train/data.h"

namespace mezzo::runtime {

// What a step costs the host; times in microseconds.
struct DeviceStepCost {
  double host_us = 0;   // until its work is in the stream, without what follows
  double batch_us = 0;  // reading its batches and writing them to pinned memory
  double wait_us = 0;   // looking whether the device is done with a buffer or with a step before
  DeviceCounts calls;   // until the next step's work is in the stream
};

class DeviceSteps {
 public:
  // REQUIRES: the executor runs on a device, and outlives the steps.
  static StatusOr<std::unique_ptr<DeviceSteps>> create(Executor& executor,
                                                       const DeviceTrainingSpec& spec,
                                                       bool with_graphs);

  // Puts the next step and its batches into the stream and does not wait, unless steps of the plan
  // are computed on the host. After an error the device's weights and statistics are those of the
  // step before. REQUIRES: in_flight() < DeviceTraining::kMostInFlight.
  Status launch(Dataset& data);
  // What the oldest step in flight came to. REQUIRES: in_flight() > 0.
  StatusOr<kernels::StepRecord> finish();
  int in_flight() const { return in_flight_; }

  DeviceTraining& training() { return *training_; }
  // Why steps are not graphs; empty if they are, or are about to be.
  const std::string& why_no_graph() const { return why_no_graph_; }
  bool has_graph() const { return graphs_[1] != nullptr; }
  // Medians of every figure over the steps since they are launched as they will be to the end: the
  // first goes call by call and the second is captured, so that the third is the first of these.
  // Empty if there were none.
  std::optional<DeviceStepCost> cost() const;

 private:
  explicit DeviceSteps(Executor& executor) : executor_(executor) {}
  Status launch_batches(Dataset& data, DeviceStepCost& cost);
  Status launch_micro_batch(bool last);
  Status enqueue(bool last);
  StatusOr<std::unique_ptr<DeviceGraph>> capture(bool last);

  Executor& executor_;
  std::unique_ptr<DeviceTraining> training_;
  std::unique_ptr<DeviceGraph> graphs_[2];  // [1]: with the update
  std::int64_t accumulate_ = 1;
  bool warm_ = false;  // a step went through call by call
  int in_flight_ = 0;
  std::string why_no_graph_;
  std::int64_t launched_ = 0;
  double waited_us_ = 0;       // since the last launch
  DeviceCounts calls_before_;  // at the end of the last launch
  std::vector<DeviceStepCost> costs_;
};

}  // namespace mezzo::runtime
