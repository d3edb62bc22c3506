// Learning-rate schedules.
//
// With u the number of steps applied so far (0 for the first step), n the total number of steps and
// w the warm-up steps, the base rate is multiplied by factor(u):
//   warm-up      (u + 1) / w                     while u < w, for every kind but one-cycle
//   constant     1
//   polynomial   m + (1 - m) (1 - p)^power,  p = min((u - w) / (n - w), 1), m = min_factor
//   linear       the same with a power of 1
//   cosine       m + (1 - m) (1 + cos(pi p)) / 2
//   step         gamma ^ floor((u - w) / step_size)
//   one-cycle    cosine from 1/div to 1 over the first pct_start of the steps, then cosine down to
//                1/(div final_div), as torch.optim.lr_scheduler.OneCycleLR with its defaults
// These are PyTorch's LinearLR, PolynomialLR, CosineAnnealingLR, StepLR and OneCycleLR; a warm-up
// of w steps is its LinearLR(start_factor = 1/w, total_iters = w - 1) before them (SequentialLR),
// and linear with warm-up is Transformers' get_linear_schedule_with_warmup one step ahead: ours
// does not spend its first step at a rate of 0.
//
// The argument counts applied steps only: a step skipped for an overflow leaves the schedule where
// it is, and the next one runs at the same rate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/status.h"
#include "kernels/formulas/lr_schedule.h"

namespace mezzo::runtime {

using kernels::LrScheduleKind;
using kernels::LrScheduleOptions;

class LrSchedule {
 public:
  // InvalidArgument naming the option: a rate that is negative or not finite, warm-up not below
  // the total, no step size, one-cycle with warm-up (it has its own) or under 2 steps.
  static StatusOr<LrSchedule> create(const LrScheduleOptions& options);

  // REQUIRES: applied_steps >= 0.
  double factor(std::int64_t applied_steps) const {
    return kernels::lr_factor(options_, applied_steps);
  }
  double rate(std::int64_t applied_steps) const { return options_.base_lr * factor(applied_steps); }

  const LrScheduleOptions& options() const { return options_; }

 private:
  explicit LrSchedule(const LrScheduleOptions& options) : options_(options) {}

  LrScheduleOptions options_;
};

// "constant", "linear", "polynomial", "cosine", "step", "one-cycle"; "warmup-cosine" is cosine,
// whose warm-up is the option's.
std::vector<std::string> lr_schedule_names();
StatusOr<LrScheduleKind> parse_lr_schedule(std::string_view name);
std::string_view lr_schedule_name(LrScheduleKind kind);

}  // namespace mezzo::runtime
