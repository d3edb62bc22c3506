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
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/status.h"
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
  // of the step before.
  StatusOr<StepMetrics> step();
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
  // All of them, in the order of optimizers(). They belong to the trainer.
  std::vector<Optimizer*> all_optimizers();
  // Name ("adamw", "sgd:critic") and applied steps of each.
  std::vector<OptimizerProgress> optimizers() const;
  // Optimizer state, gradient accumulators and the like, which lie in no arena of the plan.
  std::uint64_t state_bytes();

 private:
  Trainer(Executor& executor, Dataset& data, const TrainerOptions& options,
          const LrSchedule& schedule, const LossScaler& scaler);
  Status bind();
  Status make_optimizers();
  Status check_batches(const Dataset& data) const;
  Status run_micro_batch(std::int64_t index, double& loss_sum);
  void accumulate_gradients(bool first);
  // Pass 1 of all optimizers; sets the flags of those that skip, and `metrics`' norm and flags.
  GradientStats measure(StepMetrics& metrics);
  void apply(const GradientStats& stats);
  Status check_overflow(const StepMetrics& metrics) const;
  Status no_progress() const;
  std::string overflow_cause() const;
  std::vector<OptimizerParameter> optimizer_parameters();
  StatusOr<Evaluation> evaluate_weights(const std::string& data_path);
  std::vector<PaddedTensor> optimizer_tensors();
  std::vector<PaddedTensor> average_tensors();
  std::string changed_option(const TrainingState& saved) const;
  Status check_same_run(const std::string& folder, const Checkpoint& checkpoint) const;
  void snapshot_states();
  void restore_states();
  void advance_states();
  Status save_gradients() const;

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
};

// What the plan's inputs expect of a data set.
std::vector<InputExpectation> input_expectations(const proto::Plan& plan);

// The batch size a plan is made for: the first dimension of its first input. 0 if it has none.
std::int64_t plan_batch_size(const proto::Plan& plan);

}  // namespace mezzo::runtime
