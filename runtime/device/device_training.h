// Training steps on a device: everything between the plan's phases, and the batches on their way.
//
// A step is, in the device's stream,
//   for every micro-batch:  enqueue_batch, enqueue_begin, <forward>, <backward>,
//                           enqueue_end if there are several
//   once:                   enqueue_update, enqueue_record
// and none of these waits. What a step decides is decided on the device, by the formulas of
// runtime/train: whether gradients overflowed, the clipping factor, which optimizers skip, the next
// loss scale, learning rates, the running statistics' fate. What it came to is a StepRecord, which
// arrives on the host later. Once a step has a verdict, later ones change nothing and say so.
//
// enqueue_begin, enqueue_end and enqueue_update can be captured into a graph, the other calls
// cannot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/status.h"
#include "kernels/formulas/loss_scale.h"
#include "kernels/formulas/lr_schedule.h"
#include "kernels/formulas/optimizer.h"
#include "kernels/training_record.h"

namespace mezzo::runtime {

// Addresses are of the device's memory, belong to the caller and outlive the training.
struct DeviceTrainingSpec {
  struct Group {
    kernels::OptimizerGroup settings;
    int optimizer = 0;  // groups of one optimizer skip together; -1: frozen
  };
  struct Parameter {
    std::int64_t elems = 0;
    void* master = nullptr;          // float32
    const void* gradient = nullptr;  // float32, as the backward phase leaves it; null if frozen
    void* low = nullptr;             // copy written with each update; or null
    DType low_dtype = DType::kNone;
    int group = 0;
    bool has_first = false, has_second = false;  // optimizer state, which the training owns
  };
  struct State {
    std::int64_t elems = 0;
    void* current = nullptr;  // float32
    const void* next = nullptr;
  };
  struct Input {
    void* data = nullptr;
    std::uint64_t bytes = 0;
  };
  std::vector<Group> groups;
  std::vector<Parameter> parameters;
  std::vector<State> states;
  std::vector<Input> inputs;
  int optimizers = 1;  // at most kernels::kMostOptimizers
  const void* loss = nullptr;
  void* loss_gradient = nullptr;
  void* random_counter = nullptr;  // int64; may be null
  void* fault = nullptr;           // kernels::DeviceFault

  kernels::LossScalerOptions loss_scale;
  kernels::LrScheduleOptions schedule;
  std::int64_t accumulate = 1;
  double clip_norm = 0, clip_value = 0;  // 0: off
  double average_decay = 0;              // 0: no moving average
  bool abort_on_overflow = false;
};

// Where the host keeps what belongs to a parameter, `elems` float32 each; null where there is none.
struct HostParameter {
  float* first = nullptr;
  float* second = nullptr;
  float* average = nullptr;
};

class DeviceTraining {
 public:
  virtual ~DeviceTraining() = default;

  // State between host and device, parameter by parameter in the spec's order; these wait. put()
  // also lets a halted training go on, and writes the low-precision copies anew from the masters,
  // which the caller has brought up to date.
  virtual Status put(const kernels::TrainingProgress& progress,
                     std::span<const HostParameter> parameters) = 0;
  virtual Status get(std::span<const HostParameter> parameters) = 0;

  // Where the host is to write the next micro-batch, a buffer per input. Looks again and again
  // whether the device has read what lay there.
  virtual StatusOr<std::span<void* const>> batch_buffers() = 0;
  // Copies what was written there to the inputs.
  virtual Status enqueue_batch() = 0;
  virtual Status enqueue_begin() = 0;
  virtual Status enqueue_end() = 0;
  virtual Status enqueue_update() = 0;
  // REQUIRES: at most kMostInFlight records are on their way, this one included.
  virtual Status enqueue_record() = 0;
  // After an error between micro-batches: puts running statistics back.
  virtual Status enqueue_cancel() = 0;

  // The record of the oldest step whose record was not yet taken. Looks again and again whether it
  // has come, but does not wait for the device. REQUIRES: there is one.
  virtual StatusOr<kernels::StepRecord> take_record() = 0;

  // The gradients of a parameter as the update saw them, scaled, and how many of them hold inf or
  // NaN at the step that halted; these wait.
  virtual Status read_gradient(std::size_t parameter, std::span<float> to) = 0;
  struct BadCount {
    std::int64_t infs = 0, nans = 0;
  };
  virtual StatusOr<std::vector<BadCount>> bad_gradients() = 0;

  // Of the device's memory, for all this.
  virtual std::uint64_t bytes() const = 0;

  static constexpr int kMostInFlight = 2;
};

}  // namespace mezzo::runtime
