// SGD, Adam and AdamW over flat float32 buffers, as PyTorch defines them.
//
// A training step is two passes over memory:
//   1. measure(): the gradients are read once; found-inf and the global norm come out.
//   2. step(): unless an inf was found, one fused pass per parameter reads master weight, gradient
//      and state, unscales and clips the gradient on the way, and writes master, state and the low
//      precision copy. The gradients themselves are not modified.
// Formulas per element, with g = gradient x inverse_scale x clip factor, then limited to
// [-clip_value, clip_value] (torch.optim SGD, Adam, AdamW; not maximize, amsgrad or dampening):
//   SGD    g += wd w;  v = momentum v + g;  w -= lr v            (nesterov: w -= lr (g + momentum
//   v)) Adam   g += wd w;  m = m + (1-b1)(g - m);  v = b2 v + (1-b2) g g
//          w -= lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps)
//   AdamW  w *= 1 - lr wd;  then as Adam without wd
// All in float32, operation by operation and without fused multiply-add, so the same bits come out
// on every x86-64 processor; bias corrections and step sizes are computed in double. An element
// whose weight, gradient and state are 0 stays exactly 0, also with eps = 0 (0/0 counts as 0): the
// padded part of a parameter stays zero.
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
#include "runtime/train/gradient_stats.h"

namespace mezzo::runtime {

enum class OptimizerKind { kSgd, kAdam, kAdamW };

// Settings of a group of parameters. Defaults are PyTorch's but for weight_decay, which is 0.
struct OptimizerGroup {
  OptimizerKind kind = OptimizerKind::kSgd;
  double lr = 1e-3;  // multiplied by the schedule's factor
  double weight_decay = 0.0;
  double momentum = 0.0;  // SGD
  bool nesterov = false;  // SGD
  double beta1 = 0.9;     // Adam, AdamW
  double beta2 = 0.999;
  double eps = 1e-8;
  bool frozen = false;  // never changed; gradients not looked at
};

// The buffers of one parameter; they belong to the caller, are at least `elems` long, do not
// overlap and outlive the optimizer. State buffers may be null: the optimizer then owns them,
// zeroed. Buffers given by the caller hold the state to start from (zeros for a new run).
struct OptimizerParameter {
  std::string name;
  int group = 0;                // index into the groups
  std::int64_t elems = 0;       // with padding
  float* master = nullptr;      // float32 weights
  const float* grad = nullptr;  // float32, scaled by the loss scale; may be null if frozen
  std::uint16_t* low =
      nullptr;  // copy rewritten in the same pass, rounded to nearest even; or null
  DType low_dtype = DType::kNone;  // kFloat16 or kBFloat16 with `low`
  float* first = nullptr;          // Adam: mean of gradients; SGD with momentum: velocity
  float* second = nullptr;         // Adam: mean of squared gradients
};

// What changes from step to step.
struct OptimizerStep {
  double lr_factor = 1.0;      // LrSchedule::factor
  float inverse_scale = 1.0F;  // of the loss scale
  double clip_norm = 0.0;      // 0: no clipping
  double clip_value = 0.0;     // 0: no clipping
};

class Optimizer {
 public:
  // `threads` <= 0: as many as OpenMP would use. InvalidArgument naming group or parameter: rates,
  // decay, momentum or eps negative or not finite, betas outside [0, 1), Nesterov without momentum,
  // a group index or buffer missing, no parameter that is not frozen.
  static StatusOr<Optimizer> create(std::vector<OptimizerGroup> groups,
                                    std::vector<OptimizerParameter> parameters, int threads = 0);

  // Pass 1, over all gradients that are not frozen.
  GradientStats measure();

  // Pass 2. REQUIRES: !stats.found_inf(settings.inverse_scale); a skipped step calls nothing and so
  // leaves weights, state and step count as they are.
  void step(const GradientStats& stats, const OptimizerStep& settings);

  // Rewrites every low-precision copy from the masters, frozen ones too: at the start of a run and
  // after loading a checkpoint.
  void refresh_low();

  std::int64_t applied_steps() const { return applied_steps_; }
  // For resuming. REQUIRES: steps >= 0.
  void set_applied_steps(std::int64_t steps) { applied_steps_ = steps; }

  std::span<const OptimizerGroup> groups() const { return groups_; }
  std::span<const OptimizerParameter> parameters() const { return parameters_; }

  // A state tensor, `parameter.elems` long, under the name PyTorch gives it: "exp_avg" and
  // "exp_avg_sq" for Adam and AdamW, "momentum_buffer" for SGD with momentum.
  struct State {
    std::size_t parameter;  // index
    std::string_view name;
    std::span<float> values;
  };
  // Of all parameters that are not frozen, in order.
  std::vector<State> states();

 private:
  struct Piece {
    std::uint32_t parameter;
    std::int64_t begin;
    std::int64_t elems;
  };
  Optimizer(std::vector<OptimizerGroup> groups, std::vector<OptimizerParameter> parameters,
            int threads);
  void allocate_state();
  void cut_pieces();

  std::vector<OptimizerGroup> groups_;
  std::vector<OptimizerParameter> parameters_;
  std::vector<std::vector<float>> owned_;  // state that no caller gave
  std::vector<Piece> pieces_;              // of parameters that are not frozen
  std::vector<double> sums_;               // of pieces_[i], for measure()
  int threads_;
  std::int64_t applied_steps_ = 0;
};

// "sgd", "adam", "adamw".
StatusOr<OptimizerKind> parse_optimizer(std::string_view name);
std::string_view optimizer_name(OptimizerKind kind);

}  // namespace mezzo::runtime
