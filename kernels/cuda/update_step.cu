// A training step around the plan's phases: what comes before, between and after them, and what is
// decided.
#include <cmath>

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/update_common.h"
#include "kernels/formulas/gradient_stats.h"

namespace mezzo::kernels::cuda {

inline constexpr int kDecideThreads = 256;  // it takes many registers

// One thread. Sets what the phases read.
__global__ void begin_micro(TrainingTables tables) {
  TrainingControl& control = *tables.control;
  if (control.halted != 0) return;
  TrainingProgress& progress = control.progress;
  *tables.loss_gradient = progress.scale.scale / static_cast<float>(tables.accumulate);
  if (tables.random_counter != nullptr)
    *tables.random_counter = random_counter_of(progress.seed, progress.draws);
  ++progress.draws;
}

// sum = gradient for the first micro-batch, sum += gradient for the others.
__global__ void accumulate_pieces(TrainingTables tables) {
  const TrainingControl& control = *tables.control;
  if (control.halted != 0) return;
  const bool first = control.micro_batches == 0;
  const TrainingPiece piece = tables.pieces[blockIdx.x];
  const TrainingParameter& parameter = tables.parameters[piece.parameter];
  for_quads(piece, [&](std::int64_t offset, int count) {
    Quad g = load_quad(parameter.gradient + offset, count);
    if (!first) {
      const Quad sum = load_quad(parameter.sum + offset, count);
      for (int i = 0; i < kQuad; ++i) g.at[i] = sum.at[i] + g.at[i];
    }
    store_quad(parameter.sum + offset, g, count);
  });
}

// Between micro-batches: the first keeps what the step began with.
__global__ void advance_states(TrainingTables tables) {
  const TrainingControl& control = *tables.control;
  if (control.halted != 0) return;
  const bool first = control.micro_batches == 0;
  const TrainingPiece piece = tables.state_pieces[blockIdx.x];
  const TrainingState& state = tables.states[piece.parameter];
  for_quads(piece, [&](std::int64_t offset, int count) {
    if (first) store_quad(state.before + offset, load_quad(state.current + offset, count), count);
    store_quad(state.current + offset, load_quad(state.next + offset, count), count);
  });
}

// One thread, after the two above.
__global__ void end_micro(TrainingTables tables) {
  TrainingControl& control = *tables.control;
  if (control.halted != 0) return;
  control.loss_sum += static_cast<double>(*tables.loss);
  ++control.micro_batches;
}

// After the step's decision.
__global__ void settle_states(TrainingTables tables) {
  const TrainingControl& control = *tables.control;
  const TrainingPiece piece = tables.state_pieces[blockIdx.x];
  const TrainingState& state = tables.states[piece.parameter];
  const bool several = state.before != nullptr;
  const float* from = nullptr;
  if (control.keeps_states && !several) from = state.next;
  if (!control.keeps_states && several && control.micro_batches > 0) from = state.before;
  if (from == nullptr) return;
  for_quads(piece, [&](std::int64_t offset, int count) {
    store_quad(state.current + offset, load_quad(from + offset, count), count);
  });
}

// One thread, last of a step. Without it a step that is cancelled goes on from its middle.
__global__ void reset_step(TrainingTables tables) {
  tables.control->loss_sum = 0.0;
  tables.control->micro_batches = 0;
}

// Sums of squares by piece.
__global__ void measure_pieces(TrainingTables tables) {
  const TrainingPiece piece = tables.pieces[blockIdx.x];
  const float* gradient = gradient_of(tables.parameters[piece.parameter]);
  double sum = 0;
  for_quads(piece, [&](std::int64_t offset, int count) {
    const Quad g = load_quad(gradient + offset, count);
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const auto value = static_cast<double>(g.at[i]);
      sum += value * value;
    }
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) tables.sums[blockIdx.x] = sum;
}

namespace {

// One thread. `overflowed` and `stats` are of the gradients.
__device__ void decide(const TrainingTables& tables, std::uint64_t overflowed,
                       const GradientStats& stats) {
  TrainingControl& control = *tables.control;
  TrainingProgress& progress = control.progress;
  StepRecord record;
  record.step = ++progress.step;
  const double loss = tables.accumulate > 1 ? control.loss_sum : static_cast<double>(*tables.loss);
  record.loss = static_cast<float>(loss / static_cast<double>(tables.accumulate));
  record.loss_scale = progress.scale.scale;
  record.lr = tables.schedule.base_lr * lr_factor(tables.schedule, progress.applied_steps[0]);
  record.overflowed = overflowed;
  if (tables.fault != nullptr) record.fault = *tables.fault;
  control.inverse_scale = inverse_of(progress.scale.scale);
  record.grad_norm = stats.norm(control.inverse_scale);
  control.clip_factor = clip_factor(record.grad_norm, tables.clip_norm);
  if (record.fault.step != 0) {
    record.decision = {true, false, StepVerdict::kFault};
  } else {
    record.decision = decide_step(tables.loss_scale, progress.scale, overflowed, tables.optimizers,
                                  record.loss, tables.abort_on_overflow);
  }
  const StepVerdict verdict = record.decision.verdict;
  control.keeps_states = record.decision.keeps_states;
  if (verdict != StepVerdict::kGoOn) control.halted = 1;
  const bool updates = verdict == StepVerdict::kGoOn || verdict == StepVerdict::kNoProgress;
  for (int i = 0; i < tables.optimizers; ++i) {
    const bool overflow = (overflowed >> i & 1) != 0;
    PieceAction action = PieceAction::kNone;
    if (updates && !overflow) action = PieceAction::kUpdate;
    if (verdict != StepVerdict::kGoOn && action == PieceAction::kNone)
      action = PieceAction::kCountBad;
    control.action[i] = action;
    progress.applied_steps[i] += action == PieceAction::kUpdate ? 1 : 0;
  }
  record.after = progress;
  *tables.record = record;
}

// One thread. An earlier step had a verdict.
__device__ void pass_by(const TrainingTables& tables) {
  TrainingControl& control = *tables.control;
  control.keeps_states = false;
  control.micro_batches = 0;
  for (int i = 0; i < tables.optimizers; ++i) control.action[i] = PieceAction::kNone;
  tables.record->decision = {true, false, StepVerdict::kHalted};
}

// `step` is the count of applied steps with this one, from which coefficients follow.
__device__ void set_coefficients(const TrainingTables& tables, int index) {
  const TrainingGroup& group = tables.groups[index];
  const std::int64_t step = tables.control->progress.applied_steps[group.optimizer];
  GroupStep& result = tables.group_steps[index];
  const double lr = group.settings.lr * lr_factor(tables.schedule, step - 1);
  result.lr = lr;
  switch (group.settings.kind) {
    case OptimizerKind::kSgd: result.sgd = sgd_coefficients(group.settings, lr, step); break;
    case OptimizerKind::kAdagrad:
      result.adagrad = adagrad_coefficients(group.settings, lr, step);
      break;
    case OptimizerKind::kLamb: result.lamb = lamb_coefficients(group.settings, step); break;
    default: result.adam = adam_coefficients(group.settings, lr, step);
  }
}

}  // namespace

// One block.
__global__ void __launch_bounds__(kDecideThreads) decide_update(TrainingTables tables) {
  __shared__ int halted;
  if (threadIdx.x == 0) halted = tables.control->halted;
  __syncthreads();
  if (halted != 0) {
    if (threadIdx.x == 0) pass_by(tables);
    return;
  }
  const float inverse_scale = inverse_of(tables.control->progress.scale.scale);
  std::uint64_t overflowed = 0;
  GradientStats total;
  std::int32_t begin = 0;
  for (int unit = 0; unit < tables.optimizers; ++unit) {
    const std::int32_t end = tables.piece_ends[unit];
    double sum = 0;
    for (std::int32_t i = begin + static_cast<std::int32_t>(threadIdx.x); i < end;
         i += static_cast<std::int32_t>(blockDim.x)) {
      sum += tables.sums[i];
    }
    const GradientStats stats = {block_sum(sum)};
    if (stats.found_inf(inverse_scale)) {
      overflowed |= std::uint64_t{1} << unit;
    } else {
      total.sum_of_squares += stats.sum_of_squares;
    }
    begin = end;
  }
  __syncthreads();  // all have read the scale
  if (threadIdx.x == 0) decide(tables, overflowed, total);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < tables.group_count;
       i += static_cast<int>(blockDim.x)) {
    const PieceAction action = tables.control->action[tables.groups[i].optimizer];
    if (action == PieceAction::kUpdate) set_coefficients(tables, i);
  }
}

__global__ void write_low_pieces(TrainingTables tables) {
  const TrainingPiece piece = tables.pieces[blockIdx.x];
  const TrainingParameter& parameter = tables.parameters[piece.parameter];
  if (parameter.low == nullptr) return;
  for_quads(piece, [&](std::int64_t offset, int count) {
    store_low(parameter.low + offset, parameter.low_is_bfloat16,
              load_quad(parameter.master + offset, count), count);
  });
}

// One thread: settle_states() then puts them back.
__global__ void give_up_step(TrainingTables tables) {
  TrainingControl& control = *tables.control;
  control.keeps_states = false;
  control.progress.draws -= static_cast<std::uint64_t>(control.micro_batches) + 1;
}

namespace {

const LaunchShape kOneThread = {dim3(1), dim3(1), 0};

Status launch_settle_states(const TrainingTables& tables, void* stream) {
  if (tables.state_piece_count == 0) return ok_status();
  return launch<settle_states>(one_block_each(tables.state_piece_count), stream, tables);
}

}  // namespace

Status begin_micro_batch(const TrainingTables& tables, void* stream) {
  return launch<begin_micro>(kOneThread, stream, tables);
}

Status end_micro_batch(const TrainingTables& tables, void* stream) {
  if (tables.trained_pieces > 0) {
    MEZZO_RETURN_IF_ERROR(
        launch<accumulate_pieces>(one_block_each(tables.trained_pieces), stream, tables));
  }
  if (tables.state_piece_count > 0) {
    MEZZO_RETURN_IF_ERROR(
        launch<advance_states>(one_block_each(tables.state_piece_count), stream, tables));
  }
  return launch<end_micro>(kOneThread, stream, tables);
}

Status update_weights(const TrainingTables& tables, void* stream) {
  if (tables.trained_pieces > 0) {
    MEZZO_RETURN_IF_ERROR(
        launch<measure_pieces>(one_block_each(tables.trained_pieces), stream, tables));
  }
  const LaunchShape one_block = {dim3(1), dim3(kDecideThreads), 0};
  MEZZO_RETURN_IF_ERROR(launch<decide_update>(one_block, stream, tables));
  MEZZO_RETURN_IF_ERROR(apply_update(tables, stream));
  MEZZO_RETURN_IF_ERROR(launch_settle_states(tables, stream));
  if (tables.accumulate == 1) return ok_status();
  return launch<reset_step>(kOneThread, stream, tables);
}

Status refresh_low(const TrainingTables& tables, void* stream) {
  if (tables.piece_count == 0) return ok_status();
  return launch<write_low_pieces>(one_block_each(tables.piece_count), stream, tables);
}

Status cancel_step(const TrainingTables& tables, void* stream) {
  MEZZO_RETURN_IF_ERROR(launch<give_up_step>(kOneThread, stream, tables));
  MEZZO_RETURN_IF_ERROR(launch_settle_states(tables, stream));
  return launch<reset_step>(kOneThread, stream, tables);
}

}  // namespace mezzo::kernels::cuda
