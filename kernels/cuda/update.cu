// Weights, optimizer state, low-precision copies and moving averages in one pass over the trained
// parameters; LAMB in two, with the norms between them. Compiled without fused multiply-add: the
// elements are those of the CPU, bit by bit.
#include <cmath>

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/update_common.h"

namespace mezzo::kernels::cuda {
namespace {

// What the elements of a piece have in common.
struct PieceStep {
  float inverse_scale, clip_factor, clip_value;
  float average_share;  // of the new weight in the average; 1 at the first step
};

__device__ PieceStep piece_step(const TrainingTables& tables, const TrainingParameter& parameter) {
  const TrainingControl& control = *tables.control;
  PieceStep step;
  step.inverse_scale = control.inverse_scale;
  step.clip_factor = control.clip_factor;
  step.clip_value = tables.clip_value > 0 ? static_cast<float>(tables.clip_value) : HUGE_VALF;
  const bool first = control.progress.applied_steps[parameter.optimizer] == 1;
  step.average_share = first ? 1.0F : static_cast<float>(1.0 - tables.average_decay);
  return step;
}

__device__ void store_weights(const TrainingParameter& parameter, const PieceStep& step,
                              std::int64_t offset, const Quad& w, int count) {
  store_quad(parameter.master + offset, w, count);
  if (parameter.low != nullptr)
    store_low(parameter.low + offset, parameter.low_is_bfloat16, w, count);
  if (parameter.average == nullptr) return;
  Quad average = load_quad(parameter.average + offset, count);
  for (int i = 0; i < kQuad; ++i) {
    average.at[i] =
        step.average_share == 1.0F ? w.at[i] : averaged(average.at[i], w.at[i], step.average_share);
  }
  store_quad(parameter.average + offset, average, count);
}

// new weight = formula(weight, unscaled gradient, first, second)
template <typename Formula>
__device__ void update_piece(const TrainingTables& tables, const TrainingPiece& piece,
                             const TrainingParameter& parameter, Formula formula) {
  const PieceStep step = piece_step(tables, parameter);
  const float* gradient = gradient_of(parameter);
  for_quads(piece, [&](std::int64_t offset, int count) {
    Quad w = load_quad(parameter.master + offset, count);
    const Quad g = load_quad(gradient + offset, count);
    Quad first = {}, second = {};
    if (parameter.first != nullptr) first = load_quad(parameter.first + offset, count);
    if (parameter.second != nullptr) second = load_quad(parameter.second + offset, count);
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      w.at[i] =
          formula(w.at[i], unscaled(g.at[i], step.inverse_scale, step.clip_factor, step.clip_value),
                  first.at[i], second.at[i]);
    }
    if (parameter.first != nullptr) store_quad(parameter.first + offset, first, count);
    if (parameter.second != nullptr) store_quad(parameter.second + offset, second, count);
    store_weights(parameter, step, offset, w, count);
  });
}

// Moments alone; the weights follow once the whole parameter's norms are known.
__device__ void lamb_piece(const TrainingTables& tables, const TrainingPiece& piece,
                           const TrainingParameter& parameter, const LambCoefficients& k) {
  const PieceStep step = piece_step(tables, parameter);
  const float* gradient = gradient_of(parameter);
  Pair<double> sums = {0, 0};
  for_quads(piece, [&](std::int64_t offset, int count) {
    const Quad w = load_quad(parameter.master + offset, count);
    const Quad g = load_quad(gradient + offset, count);
    Quad mean = load_quad(parameter.first + offset, count);
    Quad mean_square = load_quad(parameter.second + offset, count);
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      lamb_moments(k, unscaled(g.at[i], step.inverse_scale, step.clip_factor, step.clip_value),
                   mean.at[i], mean_square.at[i]);
      const auto weight = static_cast<double>(w.at[i]);
      const auto update =
          static_cast<double>(lamb_update(k, w.at[i], mean.at[i], mean_square.at[i]));
      sums.first += weight * weight;
      sums.second += update * update;
    }
    store_quad(parameter.first + offset, mean, count);
    store_quad(parameter.second + offset, mean_square, count);
  });
  sums = block_reduce(sums, PairSum(), Pair<double>{0, 0});
  if (threadIdx.x == 0) tables.lamb_sums[blockIdx.x] = {sums.first, sums.second};
}

__device__ void count_bad(const TrainingTables& tables, const TrainingPiece& piece,
                          const TrainingParameter& parameter) {
  const float* gradient = gradient_of(parameter);
  Pair<int> counts = {0, 0};
  for_quads(piece, [&](std::int64_t offset, int count) {
    const Quad g = load_quad(gradient + offset, count);
    for (int i = 0; i < kQuad; ++i) {
      counts.first += isinf(g.at[i]) ? 1 : 0;
      counts.second += isnan(g.at[i]) ? 1 : 0;
    }
  });
  counts = block_reduce(counts, PairSum(), Pair<int>{0, 0});
  if (threadIdx.x == 0) tables.bad[blockIdx.x] = {counts.first, counts.second};
}

}  // namespace

__global__ void update_pieces(TrainingTables tables) {
  const TrainingPiece piece = tables.pieces[blockIdx.x];
  const TrainingParameter parameter = tables.parameters[piece.parameter];
  const PieceAction action = tables.control->action[parameter.optimizer];
  if (action == PieceAction::kNone) return;
  if (action == PieceAction::kCountBad) return count_bad(tables, piece, parameter);
  const GroupStep& group = tables.group_steps[parameter.group];
  const OptimizerGroup& settings = tables.groups[parameter.group].settings;
  switch (settings.kind) {
    case OptimizerKind::kSgd: {
      const SgdCoefficients k = group.sgd;
      if (parameter.first == nullptr) {
        return update_piece(tables, piece, parameter,
                            [&](float w, float g, float&, float&) { return sgd_element(k, w, g); });
      }
      if (k.nesterov) {
        return update_piece(tables, piece, parameter, [&](float w, float g, float& v, float&) {
          return sgd_momentum_element<Momentum::kNesterov>(k, w, g, v);
        });
      }
      return update_piece(tables, piece, parameter, [&](float w, float g, float& v, float&) {
        return sgd_momentum_element<Momentum::kPlain>(k, w, g, v);
      });
    }
    case OptimizerKind::kAdagrad: {
      const AdagradCoefficients k = group.adagrad;
      return update_piece(tables, piece, parameter, [&](float w, float g, float& sum, float&) {
        return adagrad_element(k, w, g, sum);
      });
    }
    case OptimizerKind::kLamb: return lamb_piece(tables, piece, parameter, group.lamb);
    default: {
      const AdamCoefficients k = group.adam;
      return update_piece(tables, piece, parameter, [&](float w, float g, float& m, float& v) {
        return adam_element(k, w, g, m, v);
      });
    }
  }
}

// One block per parameter.
__global__ void lamb_rates(TrainingTables tables) {
  const TrainingParameter& parameter = tables.parameters[blockIdx.x];
  if (parameter.optimizer < 0) return;
  if (tables.groups[parameter.group].settings.kind != OptimizerKind::kLamb) return;
  if (tables.control->action[parameter.optimizer] != PieceAction::kUpdate) return;
  Pair<double> sums = {0, 0};
  for (int i = static_cast<int>(threadIdx.x); i < parameter.pieces;
       i += static_cast<int>(blockDim.x)) {
    const LambSums& piece = tables.lamb_sums[parameter.first_piece + i];
    sums.first += piece.weight;
    sums.second += piece.update;
  }
  sums = block_reduce(sums, PairSum(), Pair<double>{0, 0});
  if (threadIdx.x != 0) return;
  tables.lamb_rates[blockIdx.x] =
      lamb_rate(tables.group_steps[parameter.group].lr, trust_ratio(sums.first, sums.second));
}

__global__ void lamb_weights(TrainingTables tables) {
  const TrainingPiece piece = tables.pieces[blockIdx.x];
  const TrainingParameter parameter = tables.parameters[piece.parameter];
  if (tables.control->action[parameter.optimizer] != PieceAction::kUpdate) return;
  if (tables.groups[parameter.group].settings.kind != OptimizerKind::kLamb) return;
  const LambCoefficients k = tables.group_steps[parameter.group].lamb;
  const float rate = tables.lamb_rates[piece.parameter];
  const PieceStep step = piece_step(tables, parameter);
  for_quads(piece, [&](std::int64_t offset, int count) {
    Quad w = load_quad(parameter.master + offset, count);
    const Quad mean = load_quad(parameter.first + offset, count);
    const Quad mean_square = load_quad(parameter.second + offset, count);
#pragma unroll
    for (int i = 0; i < kQuad; ++i)
      w.at[i] = w.at[i] - rate * lamb_update(k, w.at[i], mean.at[i], mean_square.at[i]);
    store_weights(parameter, step, offset, w, count);
  });
}

Status apply_update(const TrainingTables& tables, void* stream) {
  if (tables.trained_pieces == 0) return ok_status();
  const LaunchShape pieces = one_block_each(tables.trained_pieces);
  MEZZO_RETURN_IF_ERROR(launch<update_pieces>(pieces, stream, tables));
  if (tables.lamb_sums == nullptr) return ok_status();
  MEZZO_RETURN_IF_ERROR(launch<lamb_rates>(one_block_each(tables.parameter_count), stream, tables));
  return launch<lamb_weights>(pieces, stream, tables);
}

}  // namespace mezzo::kernels::cuda
