// Trains a plan: batches in, optimizer steps, metrics and checkpoints out.
//
// One step: for every micro-batch forward and backward with the loss scaled by scale / accumulate;
// one pass over the FP32 gradients for found-inf and norm; the optimizer pass, unless an inf was
// found; the scale's transition. A skipped step leaves parameters, optimizer state, running
// statistics, step count and schedule as they were.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/status.h"
#include "runtime/exec/executor.h"
#include "runtime/train/data.h"
#include "runtime/train/loss_scaler.h"
#include "runtime/train/lr_schedule.h"
#include "runtime/train/metrics.h"
#include "runtime/train/optimizer.h"

namespace mezzo::runtime {

struct TrainerOptions {
  OptimizerGroup optimizer;
  LrScheduleOptions schedule;
  LossScalerOptions loss_scale;
  std::int64_t accumulate = 1;
  double clip_norm = 0;   // 0: off
  double clip_value = 0;  // 0: off
  bool abort_on_overflow = false;
  std::uint64_t seed = 0;
  int threads = 1;
  std::int64_t save_gradients_step = 0;  // 0: never
  std::string out;                       // folder for gradients_STEP.npz and checkpoint/
  std::string options_digest;            // compared when resuming
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

  // One optimizer step. InvalidArgument: a wrong value in the data, or training cannot go on.
  StatusOr<StepMetrics> step();

  // Runs the evaluate phase over all samples of `data`, in order. The plan must have one.
  StatusOr<Evaluation> evaluate(const std::string& data_path);

  Status save(const std::string& folder);
  Status resume(const std::string& folder);

  std::int64_t steps_done() const { return step_; }
  std::int64_t skipped_steps() const { return scaler_.skipped_steps(); }
  const LossScaler& loss_scaler() const { return scaler_; }
  Optimizer& optimizer() { return *optimizer_; }
  // Optimizer state, gradient accumulators and the like, which lie in no arena of the plan.
  std::uint64_t state_bytes();

 private:
  Trainer(Executor& executor, Dataset& data, const TrainerOptions& options, LrSchedule schedule,
          LossScaler scaler);
  Status bind();
  Status check_batches(const Dataset& data) const;
  Status run_micro_batch(std::int64_t index, double& loss_sum);
  void accumulate_gradients(bool first);
  void snapshot_states();
  void restore_states();
  void advance_states();
  Status save_gradients() const;

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
  std::optional<Optimizer> optimizer_;
  std::vector<void*> input_buffers_;
  std::vector<StateBuffers> states_;
  std::vector<std::vector<float>> accumulators_;  // per trained parameter, where accumulate > 1
  std::int64_t step_ = 0;
  std::uint64_t draws_ = 0;  // random counter: one per micro-batch
};

// What the plan's inputs expect of a data set.
std::vector<InputExpectation> input_expectations(const proto::Plan& plan);

// The batch size a plan is made for: the first dimension of its first input. 0 if it has none.
std::int64_t plan_batch_size(const proto::Plan& plan);

}  // namespace mezzo::runtime
