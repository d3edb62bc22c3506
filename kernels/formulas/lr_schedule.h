// Learning-rate schedules: see runtime/train/lr_schedule.h, which documents them.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/formulas/host_device.h"

namespace mezzo::kernels {

enum class LrScheduleKind : std::int32_t {
  kConstant,
  kLinear,
  kPolynomial,
  kCosine,
  kStep,
  kOneCycle
};

struct LrScheduleOptions {
  LrScheduleKind kind = LrScheduleKind::kConstant;
  double base_lr = 1e-3;  // the peak for one-cycle
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  // needed by all but constant and step
  double min_factor = 0.0;       // linear, polynomial, cosine
  double power = 1.0;            // polynomial
  std::int64_t step_size = 0;    // step
  double gamma = 0.1;            // step
  double pct_start = 0.3;        // one-cycle
  double div_factor = 25.0;
  double final_div_factor = 1e4;
};

// From `start` at 0 to `end` at 1, along half a cosine.
MEZZO_HD inline double cosine_between(double start, double end, double at) {
  constexpr double kPi = 3.141592653589793;
  return end + (start - end) * (1.0 + std::cos(kPi * at)) / 2.0;
}

// From 1 at 0 to `end` at 1.
MEZZO_HD inline double polynomial_between(double end, double power, double at) {
  return end + (1.0 - end) * std::pow(1.0 - at, power);
}

MEZZO_HD inline double one_cycle_factor(const LrScheduleOptions& options,
                                        std::int64_t applied_steps) {
  const double last = static_cast<double>(options.total_steps - 1);
  const double peak = options.pct_start * static_cast<double>(options.total_steps) - 1.0;
  const double step = static_cast<double>(applied_steps);
  const double at = last < step ? last : step;
  const double start = 1.0 / options.div_factor;
  const double end = start / options.final_div_factor;
  if (peak > 0 && at <= peak) return cosine_between(start, 1.0, at / peak);
  const double from = peak < 0.0 ? 0.0 : peak;  // no rising part: start at the top
  return last > from ? cosine_between(1.0, end, (at - from) / (last - from)) : 1.0;
}

// What the base rate is multiplied by. REQUIRES: options that LrSchedule::create accepts,
// applied_steps >= 0.
MEZZO_HD inline double lr_factor(const LrScheduleOptions& o, std::int64_t applied_steps) {
  if (o.kind == LrScheduleKind::kOneCycle) return one_cycle_factor(o, applied_steps);
  if (applied_steps < o.warmup_steps)
    return static_cast<double>(applied_steps + 1) / static_cast<double>(o.warmup_steps);
  const std::int64_t after = applied_steps - o.warmup_steps;
  if (o.kind == LrScheduleKind::kStep) {
    const std::int64_t falls = after / o.step_size;
    return std::pow(o.gamma, static_cast<double>(falls));
  }
  const double share =
      static_cast<double>(after) / static_cast<double>(o.total_steps - o.warmup_steps);
  const double done = 1.0 < share ? 1.0 : share;
  switch (o.kind) {
    case LrScheduleKind::kLinear: return polynomial_between(o.min_factor, 1.0, done);
    case LrScheduleKind::kPolynomial: return polynomial_between(o.min_factor, o.power, done);
    case LrScheduleKind::kCosine: return cosine_between(1.0, o.min_factor, done);
    default: return 1.0;
  }
}

}  // namespace mezzo::kernels
