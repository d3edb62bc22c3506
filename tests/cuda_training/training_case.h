// One training, twice: by the device, and on the host by Optimizer and LossScaler as the trainer
// uses them. Gradients and losses are given from outside, the plan's phases are left out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/support/dtype.h"
#include "runtime/device/device.h"
#include "runtime/device/device_training.h"
#include "runtime/train/loss_scaler.h"
#include "runtime/train/lr_schedule.h"
#include "runtime/train/optimizer.h"

namespace mezzo::test {

struct CaseParameter {
  std::int64_t elems = 1;
  int group = 0;
  DType low = DType::kNone;
};

struct CaseGroup {
  kernels::OptimizerGroup settings;
  int optimizer = 0;  // frozen groups go with optimizer 0
};

struct TrainingCaseOptions {
  std::vector<CaseGroup> groups;
  std::vector<CaseParameter> parameters;
  std::vector<std::int64_t> states;  // elements of running statistics
  int optimizers = 1;
  kernels::LossScalerOptions loss_scale;
  kernels::LrScheduleOptions schedule;
  std::int64_t accumulate = 1;
  double clip_norm = 0, clip_value = 0, average_decay = 0;
  bool abort_on_overflow = false;
};

// What the phases of one micro-batch would have left behind.
struct MicroBatch {
  std::vector<std::vector<float>> gradients;   // by parameter, unscaled
  std::vector<std::vector<float>> statistics;  // by state: the next ones
  float loss = 0;
};

class TrainingCase {
 public:
  static StatusOr<std::unique_ptr<TrainingCase>> create(runtime::Device& device,
                                                        const TrainingCaseOptions& options);

  // One step on both sides. The record is the device's; the test fails where the two differ.
  // `tolerance`: of weights and state, relative to the largest of each tensor; 0: the same bits.
  kernels::StepRecord step(const std::vector<MicroBatch>& batches, double tolerance);

  const runtime::LossScaler& scaler() const { return scaler_; }
  runtime::DeviceTraining& training() { return *training_; }
  std::vector<float> device_weights(std::size_t parameter);
  std::vector<float> device_statistics(std::size_t state);
  const TrainingCaseOptions& options() const { return options_; }

 private:
  struct Tensor {
    std::vector<float> host;
    std::unique_ptr<runtime::DeviceMemory> device;
  };
  struct HostResult {
    float loss = 0;
    double norm = 0;
    std::uint64_t overflowed = 0;
    bool skipped = false, abort = false, no_progress = false;
  };
  TrainingCase(runtime::Device& device, const TrainingCaseOptions& options)
      : device_(device), options_(options) {}
  Status make_host();
  Status make_device();
  StatusOr<Tensor> tensor(std::int64_t elems, std::uint64_t seed);
  void launch_on_device(const std::vector<MicroBatch>& batches);
  HostResult step_on_host(const std::vector<MicroBatch>& batches);
  void compare_record(const kernels::StepRecord& record, const HostResult& host, double tolerance);
  void compare_tensors(double tolerance);
  void compare(const std::string& what, const std::vector<float>& device,
               const std::vector<float>& host, double tolerance);
  std::vector<float> download(const runtime::DeviceMemory& memory, std::size_t elems);

  runtime::Device& device_;
  TrainingCaseOptions options_;
  std::vector<Tensor> masters_, gradients_, current_, next_;
  std::vector<std::vector<std::uint16_t>> host_low_;
  std::vector<std::unique_ptr<runtime::DeviceMemory>> device_low_;
  std::vector<runtime::Optimizer> optimizers_;
  std::vector<std::vector<std::size_t>> members_;  // parameters of each optimizer
  runtime::LossScaler scaler_;
  std::unique_ptr<runtime::LrSchedule> schedule_;
  std::unique_ptr<runtime::DeviceTraining> training_;
  std::unique_ptr<runtime::DeviceMemory> loss_, loss_gradient_, counter_, fault_;
  bool halted_ = false;
};

// Seeded, in [-1, 1).
std::vector<float> case_floats(std::int64_t elems, std::uint64_t seed);

}  // namespace mezzo::test
