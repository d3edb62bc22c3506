// SGD, Adam, AdamW, LAMB and Adagrad over flat float32 buffers, as PyTorch defines them.
//
// A training step is two passes over memory:
//   1. measure(): the gradients are read once; found-inf and the global norm come out.
//   2. step(): unless an inf was found, one fused pass per parameter reads master weight, gradient
//      and state, unscales and clips the gradient on the way, and writes master, state, the low
//      precision copy and the moving average. The gradients themselves are not modified. (LAMB
//      needs the norm of its update: it reads weights and moments once more.)
// Formulas per element at step t, with g = gradient x inverse_scale x clip factor, then limited to
// [-clip_value, clip_value] (torch.optim SGD, Adam, AdamW, Adagrad; not maximize or amsgrad):
//   SGD      g += wd w;  v = momentum v + (1 - dampening) g, at t = 1 v = g;  w -= lr v
//            (nesterov: w -= lr (g + momentum v))
//   Adam     g += wd w;  m = m + (1-b1)(g - m);  v = b2 v + (1-b2) g g
//            w -= lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps)
//   AdamW    w *= 1 - lr wd;  then as Adam without wd
//   AdamW, HuggingFace's form (transformers.AdamW, ONNX Runtime's AdamWOptimizer adam_mode = 1):
//            m, v as Adam;  w -= lr sqrt(1-b2^t)/(1-b1^t) m / (sqrt(v) + eps);  w *= 1 - lr wd
//   LAMB     m, v as Adam without wd;  u = m/(1-b1^t) / (sqrt(v)/sqrt(1-b2^t) + eps) + wd w
//            w -= lr r u,  r = |w| / |u| over the parameter, 1 where either norm is 0
//            (You et al., "Large Batch Optimization for Deep Learning", arXiv:1904.00962, algorithm
//            2 with phi the identity; as ONNX Runtime's LambOptimizer without limits of the ratio.
//            NVIDIA Apex and timm by default take r = 1 where wd = 0, and Apex clips the global
//            norm to 1: here --clip-norm does.)
//   Adagrad  g += wd w;  s = s + g g;  w -= lr/(1 + (t-1) lr_decay) g / (sqrt(s) + eps)
// ONNX's form, where T = t - 1 + first_count is the update count of Momentum, Adam and Adagrad:
//   SGD      v = g at t = 1 only if first_count is 0
//   Adam     g += wd w;  m, v as Adam;  r = lr sqrt(1-b2^T)/(1-b1^T), lr where T = 0
//            w -= r m / (sqrt(v) + eps);  w *= 1 - shrink
//   Adagrad  T in the place of t-1
// Without bias correction the factors 1-b1^t and 1-b2^t are 1.
// All in float32, operation by operation and without fused multiply-add, so the same bits come out
// on every x86-64 processor; bias corrections, norms and step sizes are computed in double. An
// element whose weight, gradient and state are 0 stays exactly 0, also with eps = 0 (0/0 counts as
// 0): the padded part of a parameter stays zero.
//
// The passes run in fixed pieces of 16384 elements, so results do not depend on the thread count.
// Nothing is allocated after create().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/status.h"
#include "kernels/formulas/optimizer.h"
#include "runtime/train/gradient_stats.h"

namespace mezzo::runtime {

using kernels::AdamWForm;
using kernels::OptimizerGroup;
using kernels::OptimizerKind;

// InvalidArgument, "momentum: expected a number in [0, 1), got 2": rates, decay or eps negative or
// not finite, momentum, dampening or betas outside [0, 1), Nesterov without momentum or with
// dampening. Settings that the kind does not use are not looked at.
Status check_group(const OptimizerGroup& group);

// What `kind` takes for eps where nobody says.
double default_eps(OptimizerKind kind);

// The buffers of one parameter; they belong to the caller, are at least `elems` long, do not
// overlap and outlive the optimizer. State buffers may be null: the optimizer then owns them,
// as they are at the start of a run. Buffers given by the caller hold the state to start from.
struct OptimizerParameter {
  std::string name;
  int group = 0;                // index into the groups
  std::int64_t elems = 0;       // with padding
  float* master = nullptr;      // float32 weights
  const float* grad = nullptr;  // float32, scaled by the loss scale; may be null if frozen
  std::uint16_t* low =
      nullptr;  // copy rewritten in the same pass, rounded to nearest even; or null
  DType low_dtype = DType::kNone;  // kFloat16 or kBFloat16 with `low`
  float* first = nullptr;          // Adam, LAMB: mean of gradients; SGD with momentum: velocity;
                                   // Adagrad: sum of squared gradients
  float* second = nullptr;         // Adam, LAMB: mean of squared gradients
};

// What changes from step to step.
struct OptimizerStep {
  double lr_factor = 1.0;      // LrSchedule::factor
  float inverse_scale = 1.0F;  // of the loss scale
  double clip_norm = 0.0;      // 0: no clipping
  double clip_value = 0.0;     // 0: no clipping
};

struct OptimizerOptions {
  int threads = 0;  // 0: as many as OpenMP would use
  // Over 0: every parameter has a moving average, a copy of the weights after the first applied
  // step and from then on average += (1 - average_decay) (w - average) after each (as
  // torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn).
  double average_decay = 0.0;
};

// One optimizer in PyTorch's sense: it skips a step as a whole and counts its own steps, whatever
// the groups of its parameters.
class Optimizer {
 public:
  // InvalidArgument naming group or parameter: what check_group() says, average_decay outside
  // [0, 1), a group index or buffer missing, no parameter that is not frozen.
  static StatusOr<Optimizer> create(std::vector<OptimizerGroup> groups,
                                    std::vector<OptimizerParameter> parameters,
                                    const OptimizerOptions& options = {});

  // Pass 1, over all gradients that are not frozen.
  GradientStats measure();

  // Pass 2. `stats` are those of all gradients that are clipped together, with several optimizers
  // those of all that step. REQUIRES: !measure().found_inf(settings.inverse_scale); a skipped step
  // calls nothing and so leaves weights, state, average and step count as they are.
  void step(const GradientStats& stats, const OptimizerStep& settings);

  // Rewrites every low-precision copy from the masters, frozen ones too: at the start of a run and
  // after loading a checkpoint.
  void refresh_low();

  // Puts the averages where the weights are, and back at the next call; low-precision copies stay.
  // No step may be taken in between. Nothing happens without averages or before the first step.
  void swap_averages();

  std::int64_t applied_steps() const { return applied_steps_; }
  // For resuming. REQUIRES: steps >= 0.
  void set_applied_steps(std::int64_t steps) { applied_steps_ = steps; }

  std::span<const OptimizerGroup> groups() const { return groups_; }
  std::span<const OptimizerParameter> parameters() const { return parameters_; }

  // A tensor beside a parameter, `parameter.elems` long, under the name PyTorch gives it:
  // "exp_avg" and "exp_avg_sq" for Adam, AdamW and LAMB, "momentum_buffer" for SGD with momentum,
  // "sum" for Adagrad.
  struct State {
    std::size_t parameter;  // index
    std::string_view name;
    std::span<float> values;
  };
  // Of all parameters that are not frozen, in order.
  std::vector<State> states();
  // Their moving averages, named "average"; none without average_decay.
  std::vector<State> averages();

  // Gradients that hold inf or NaN, for messages, in the order of the parameters.
  struct BadGradient {
    std::size_t parameter;  // index
    std::int64_t infs, nans;
  };
  std::vector<BadGradient> bad_gradients() const;

 private:
  struct Piece {
    std::uint32_t parameter;
    std::int64_t begin;
    std::int64_t elems;
  };
  Optimizer(std::vector<OptimizerGroup> groups, std::vector<OptimizerParameter> parameters,
            const OptimizerOptions& options);
  void allocate_state();
  void cut_pieces();
  const OptimizerGroup& group_of(const OptimizerParameter& parameter) const {
    return groups_[static_cast<std::size_t>(parameter.group)];
  }
  void update_piece(std::size_t index, const OptimizerStep& settings, float clip);
  void apply_lamb(const OptimizerStep& settings);
  void update_average(const Piece& piece);

  std::vector<OptimizerGroup> groups_;
  std::vector<OptimizerParameter> parameters_;
  std::vector<std::vector<float>> owned_;          // state that no caller gave
  std::vector<std::vector<float>> averages_;       // by parameter; empty if frozen
  std::vector<Piece> pieces_;                      // of parameters that are not frozen
  std::vector<double> sums_;                       // of pieces_[i], for measure()
  std::vector<double> weight_sums_, update_sums_;  // of pieces_[i], for LAMB
  std::vector<float> trust_ratios_;                // of parameters_[i], for LAMB
  bool has_lamb_ = false;
  int threads_;
  double average_decay_;
  std::int64_t applied_steps_ = 0;
};

// "sgd", "adam", "adamw", "lamb", "adagrad".
std::vector<std::string> optimizer_names();
StatusOr<OptimizerKind> parse_optimizer(std::string_view name);
std::string_view optimizer_name(OptimizerKind kind);

}  // namespace mezzo::runtime
