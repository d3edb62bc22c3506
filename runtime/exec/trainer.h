// Trains a plan: batches in, optimizer steps, metrics and checkpoints out.
//
// One step: for every micro-batch forward and backward with the loss scaled by scale / accumulate;
// one pass over the FP32 gradients for found-inf and norm; the optimizer pass, unless an inf was
// found; the scale's transition. A skipped step leaves parameters, optimizer state, moving average,
// running statistics, step count and schedule as they were.
//
// Parameters form groups with settings of their own. As in PyTorch, groups belong to an optimizer,
// which skips as a whole: those of one kind and instance are one. With several optimizers under the
// one loss scale, each skips for inf or NaN in its own gradients only, has its own step count and
// stands at its own place in the schedule; the scale moves once, by the OR of all; running
// statistics are kept only if none overflowed; and the global norm is that of the gradients whose
// optimizers step (PyTorch's clip_grad_norm_ would let one inf set all others' gradients to 0).
//
// On a device all of this happens there: see device_training.h. The executor's host buffers and the
// optimizers then hold what the device held when somebody last asked: save(), evaluate() with
// averages and all_optimizers() ask.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/status.h"
#include "runtime/exec/buffer.h"
#include "runtime/exec/device_steps.h"
#include "runtime/exec/executor.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/data.h"
#include "runtime/train/loss_scaler.h"
#include "runtime/train/lr_schedule.h"
#include "runtime/train/metrics.h"
#include "runtime/train/optimizer.h"

namespace mezzo::runtime {

struct ParameterGroup {
  std::string name;  // for messages
  OptimizerGroup settings;
  std::string instance;                 // groups of one kind and instance are one optimizer
  std::vector<std::string> parameters;  // of the plan; each in one group at most
};

struct TrainerOptions {
  OptimizerGroup optimizer;            // of parameters in no group
  std::vector<ParameterGroup> groups;  // at most 64 optimizers come of them
  LrScheduleOptions schedule;
  LossScalerOptions loss_scale;
  std::int64_t accumulate = 1;
  double clip_norm = 0;      // 0: off
  double clip_value = 0;     // 0: off
  double average_decay = 0;  // of the weights' moving average; 0: none is kept
  // An error at the first overflow, and at the first loss that is not finite.
  bool abort_on_overflow = false;
  std::uint64_t seed = 0;
  int threads = 1;
  std::int64_t save_gradients_step = 0;  // 0: never
  std::string out;                       // folder for gradients_STEP.npz and checkpoint/
  // Compared when resuming: a digest, and options that are not at their defaults, by name.
  std::string options_digest;
  std::map<std::string, std::string> options;
  // What the model has besides parameters and states, for checkpoints. The bytes outlive the
  // trainer.
  std::vector<FixedTensor> fixed;
  bool graphs = true;  // on a device: capture steps where they can be
};

struct Evaluation {
  double loss = 0;                 // mean over full batches
  std::optional<double> accuracy;  // where an output holds class scores for an integer input
  std::int64_t samples = 0;
};

class Trainer {
 public:
  // REQUIRES: the executor's plan has a training part; both outlive the trainer.
  static StatusOr<std::unique_ptr<Trainer>> create(Executor& executor, Dataset& data,
                                                   const TrainerOptions& options);

  // One optimizer step. InvalidArgument: a wrong value in the data, or training cannot go on; the
  // message says which gradient was the first to hold inf or NaN. Weights and state are then those
  // of the step before. Internal: a call of the device went wrong, and what the device holds is not
  // known; nothing else can be done with the trainer.
  //
  // A device starts on the steps after it, up to number `last`, before this one's metrics are here;
  // nothing but step() may be called until step `last` has been returned. 0: on none.
  StatusOr<StepMetrics> step(std::int64_t last = 0);
  // Of the last step that ran to its end, be it to an error for an overflow.
  const StepMetrics& last_step() const { return last_step_; }

  // Runs the evaluate phase over all samples of `data`, in order, with the weights or with their
  // moving average; running statistics are those of the model in both. The plan must have the
  // phase.
  StatusOr<Evaluation> evaluate(const std::string& data_path, bool with_average = false);

  Status save(const std::string& folder);
  Status resume(const std::string& folder);

  std::int64_t steps_done() const { return step_; }
  // In which an optimizer found an overflow.
  std::int64_t skipped_steps() const { return scaler_.skipped_steps(); }
  const LossScaler& loss_scaler() const { return scaler_; }
  // The first, of the parameters in no group if there are any.
  Optimizer& optimizer() { return units_.front().optimizer; }
  // All of them, in the order of optimizers(), to be looked at or changed. They belong to the
  // trainer.
  StatusOr<std::vector<Optimizer*>> all_optimizers();
  // Name ("adamw", "sgd:critic") and applied steps of each.
  std::vector<OptimizerProgress> optimizers() const;
  // Optimizer state, gradient accumulators and the like, which lie in no arena of the plan.
  std::uint64_t state_bytes();
  // On a device, why steps are launched call by call instead of as a graph; empty if they are not.
  std::string why_no_graph() const;
  // Null on the CPU.
  const DeviceSteps* device_steps() const { return device_.get(); }

 private:
  Trainer(Executor& executor, Dataset& data, const TrainerOptions& options,
          const LrSchedule& schedule, const LossScaler& scaler);
  Status bind();
  Status make_optimizers();
  Status check_batches(const Dataset& data) const;
  StatusOr<StepMetrics> host_step();
  Status run_micro_batches(double& loss_sum);
  Status run_micro_batch(std::int64_t index, double& loss_sum);
  void accumulate_gradients(bool first);
  // Pass 1 of all optimizers; sets the flags of those that skip, and `metrics`' norm and flags.
  GradientStats measure(StepMetrics& metrics);
  void apply(const GradientStats& stats);
  // An error of the current step, which it then names.
  Status at_step(const Status& status) const;
  Status check_overflow(const StepMetrics& metrics) const;
  Status no_progress() const;
  std::string overflow_cause() const;
  std::vector<Optimizer::BadGradient> bad_gradients(std::size_t unit) const;
  std::vector<OptimizerParameter> optimizer_parameters();
  Status swap_averages();
  StatusOr<Evaluation> evaluate_weights(const std::string& data_path);
  std::vector<PaddedTensor> optimizer_tensors();
  std::vector<PaddedTensor> average_tensors();
  std::string changed_option(const TrainingState& saved) const;
  Status check_same_run(const std::string& folder, const Checkpoint& checkpoint) const;
  void snapshot_states();
  void restore_states();
  void advance_states();
  Status save_gradients() const;

  // trainer_device.cpp
  DeviceTrainingSpec device_spec() const;
  StatusOr<StepMetrics> device_step(std::int64_t last);
  StatusOr<StepMetrics> finish_step(const kernels::StepRecord& record);
  Status launch_until(std::int64_t last);
  Status drain();
  Status broken_off(const Status& error);
  Status upload_weights();
  Status to_device();
  Status to_host();
  Status download_gradients();
  std::vector<HostParameter> host_parameters();

  // An optimizer and what a step finds of it.
  struct Unit {
    std::string name;
    std::vector<std::string> group_names;  // by index of its groups
    Optimizer optimizer;
    GradientStats stats;
    bool overflow = false;
  };
  struct StateBuffers {
    float* current;
    const float* next;
    std::vector<float> before;  // at the start of the step
  };

  // Which of host and device holds weights and state that the other has not.
  enum class Newer { kHost, kDevice, kNeither };

  Executor& executor_;
  Dataset& data_;
  TrainerOptions options_;
  LrSchedule schedule_;
  LossScaler scaler_;
  std::vector<Unit> units_;
  std::vector<void*> input_buffers_;
  std::vector<StateBuffers> states_;
  std::vector<std::vector<float>> accumulators_;  // per trained parameter, where accumulate > 1
  StepMetrics last_step_;
  std::int64_t step_ = 0;
  std::uint64_t draws_ = 0;  // random counter: one per micro-batch

  std::unique_ptr<DeviceSteps> device_;  // null: the CPU
  Buffer host_state_;                    // of the optimizers, as last seen
  Newer newer_ = Newer::kHost;
  Status launch_error_ = ok_status();  // told once the steps before are finished
  Status device_error_ = ok_status();  // of the call that broke off a step
  // Of the data, after the last step that is finished and after each in flight.
  std::int64_t finished_position_ = 0;
  std::deque<std::int64_t> launched_positions_;
  std::chrono::steady_clock::time_point finished_at_;
};

// What the plan's inputs expect of a data set.
std::vector<InputExpectation> input_expectations(const proto::Plan& plan);

// The batch size a plan is made for: the first dimension of its first input. 0 if it has none.
std::int64_t plan_batch_size(const proto::Plan& plan);

}  // namespace mezzo::runtime
