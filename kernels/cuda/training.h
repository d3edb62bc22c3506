// The kernels of a training step that no operator of the plan is: the random counter and the loss's
// gradient before the forward phase, sums over micro-batches, and the update. Everything a step
// decides is decided on the device: found-inf, clipping, skipping, the loss scale, learning rates,
// when to halt. runtime/device/device_training.h says what it means, runtime/train and
// kernels/formulas what is computed.
//
//   begin_micro_batch   forward, backward   [end_micro_batch]   update
//
// The parameters that are trained are cut into pieces of at most kTrainingPieceElems elements, one
// block each. Sums run in a fixed order; nothing depends on the GPU.
#pragma once

#include <cstdint>

#include "compiler/support/status.h"
#include "kernels/formulas/lr_schedule.h"
#include "kernels/formulas/optimizer.h"
#include "kernels/training_record.h"

namespace mezzo::kernels::cuda {

inline constexpr std::int64_t kTrainingPieceElems = 8192;

// All pointers of this file are to the device's memory; float32 buffers are aligned to 16 bytes.
struct TrainingParameter {
  std::int64_t elems = 0;
  float* master = nullptr;
  const float* gradient = nullptr;  // as the backward phase leaves it
  float* sum = nullptr;             // over micro-batches; null with one
  std::uint16_t* low = nullptr;
  float* first =
      nullptr;  // optimizer state, as OptimizerParameter has it; null where there is none
  float* second = nullptr;
  float* average = nullptr;
  std::int32_t group = 0;
  std::int32_t optimizer = -1;  // -1: frozen
  std::int32_t first_piece = 0, pieces = 0;
  bool low_is_bfloat16 = false;
};

struct TrainingPiece {
  std::int64_t begin = 0;
  std::int32_t elems = 0;
  std::int32_t parameter = 0;
};

// A running statistic: `next` is what the forward phase makes of `current`.
struct TrainingState {
  float* current = nullptr;
  const float* next = nullptr;
  float* before = nullptr;  // at the start of the step; null with one micro-batch
};

struct TrainingGroup {
  OptimizerGroup settings;
  std::int32_t optimizer = 0;
};

// A group's coefficients in one step; those of its kind are set.
struct GroupStep {
  double lr;
  SgdCoefficients sgd;
  AdamCoefficients adam;
  AdagradCoefficients adagrad;
  LambCoefficients lamb;
};

enum class PieceAction : std::int32_t { kNone, kUpdate, kCountBad };

struct TrainingControl {
  TrainingProgress progress;
  double loss_sum = 0.0;
  std::int32_t micro_batches = 0;  // of this step, done
  std::int32_t halted = 0;
  // Decided by the update for the step:
  float inverse_scale = 1.0F, clip_factor = 1.0F;
  bool keeps_states = false;
  PieceAction action[kMostOptimizers] = {};  // by optimizer
};

struct LambSums {
  double weight, update;
};
struct BadCounts {
  std::int32_t infs, nans;
};

struct TrainingTables {
  TrainingControl* control = nullptr;
  StepRecord* record = nullptr;
  const TrainingParameter* parameters = nullptr;
  const TrainingPiece* pieces = nullptr;  // trained ones by optimizer, then those of frozen ones
  const TrainingGroup* groups = nullptr;
  GroupStep* group_steps = nullptr;
  const std::int32_t* piece_ends = nullptr;  // by optimizer: the number after its last piece
  double* sums = nullptr;                    // by trained piece, as are the next two
  LambSums* lamb_sums = nullptr;             // null: no group has LAMB
  BadCounts* bad = nullptr;
  float* lamb_rates = nullptr;  // by parameter
  const TrainingState* states = nullptr;
  const TrainingPiece* state_pieces = nullptr;  // `parameter` is a state's index
  std::int32_t parameter_count = 0, piece_count = 0, trained_pieces = 0;
  std::int32_t group_count = 0, optimizers = 0, state_piece_count = 0;

  const float* loss = nullptr;
  float* loss_gradient = nullptr;
  std::int64_t* random_counter = nullptr;  // may be null
  DeviceFault* fault = nullptr;

  LossScalerOptions loss_scale;
  LrScheduleOptions schedule;
  std::int64_t accumulate = 1;
  double clip_norm = 0, clip_value = 0, average_decay = 0;
  bool abort_on_overflow = false;
};

// Each puts its kernels into the stream; `stream` is a cudaStream_t. Errors: of the launches.
Status begin_micro_batch(const TrainingTables& tables, void* stream);
// After the backward phase, where a step has several micro-batches.
Status end_micro_batch(const TrainingTables& tables, void* stream);
// After the last one. Writes *tables.record.
Status update_weights(const TrainingTables& tables, void* stream);
// Rewrites every low-precision copy from the master.
Status refresh_low(const TrainingTables& tables, void* stream);
// A step that stopped between its micro-batches: what they changed is put back.
Status cancel_step(const TrainingTables& tables, void* stream);

}  // namespace mezzo::kernels::cuda
