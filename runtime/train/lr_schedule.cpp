#include "runtime/train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "compiler/support/text.h"

namespace mezzo::runtime {
namespace {

// From `start` at 0 to `end` at 1, along half a cosine.
double cosine_between(double start, double end, double at) {
  return end + (start - end) * (1.0 + std::cos(std::numbers::pi * at)) / 2.0;
}

Status bad(std::string_view option, std::string_view expected, double got) {
  return invalid_argument(std::string(option) + ": expected " + std::string(expected) + ", got " +
                          format_number(got));
}

bool is_rate(double value) { return value >= 0 && std::isfinite(value); }

}  // namespace

StatusOr<LrSchedule> LrSchedule::create(const LrScheduleOptions& o) {
  const auto warmup = static_cast<double>(o.warmup_steps);
  if (!is_rate(o.base_lr)) return bad("--lr", "a number of at least 0", o.base_lr);
  if (o.warmup_steps < 0) return bad("--warmup-steps", "0 or more", warmup);
  switch (o.kind) {
    case LrScheduleKind::kConstant: break;
    case LrScheduleKind::kCosine:
      if (o.total_steps <= o.warmup_steps) {
        return bad("--warmup-steps",
                   "fewer than the " + std::to_string(o.total_steps) + " steps of the run", warmup);
      }
      if (!(o.min_factor >= 0 && o.min_factor <= 1)) {
        return bad("the cosine's least factor", "0 to 1", o.min_factor);
      }
      break;
    case LrScheduleKind::kStep:
      if (o.step_size < 1) {
        return bad("the step schedule's step size", "at least 1", static_cast<double>(o.step_size));
      }
      if (!is_rate(o.gamma))
        return bad("the step schedule's gamma", "a number of at least 0", o.gamma);
      break;
    case LrScheduleKind::kOneCycle:
      if (o.warmup_steps != 0) {
        return bad("--warmup-steps", "none with one-cycle, which has its own warm-up", warmup);
      }
      if (o.total_steps < 2) {
        return bad("one-cycle", "at least 2 steps", static_cast<double>(o.total_steps));
      }
      if (!(o.pct_start >= 0 && o.pct_start <= 1)) {
        return bad("one-cycle's rising share", "0 to 1", o.pct_start);
      }
      if (!(o.div_factor > 0 && o.final_div_factor > 0)) {
        return bad("one-cycle's divisors", "numbers over 0",
                   std::min(o.div_factor, o.final_div_factor));
      }
      break;
  }
  return LrSchedule(o);
}

double LrSchedule::factor(std::int64_t applied_steps) const {
  const auto& o = options_;
  if (o.kind == LrScheduleKind::kOneCycle) return one_cycle(applied_steps);
  if (applied_steps < o.warmup_steps) {
    return static_cast<double>(applied_steps + 1) / static_cast<double>(o.warmup_steps);
  }
  const std::int64_t after = applied_steps - o.warmup_steps;
  switch (o.kind) {
    case LrScheduleKind::kCosine: {
      const auto length = static_cast<double>(o.total_steps - o.warmup_steps);
      return cosine_between(1.0, o.min_factor, std::min(static_cast<double>(after) / length, 1.0));
    }
    case LrScheduleKind::kStep: return std::pow(o.gamma, static_cast<double>(after / o.step_size));
    default: return 1.0;
  }
}

double LrSchedule::one_cycle(std::int64_t applied_steps) const {
  const double last = static_cast<double>(options_.total_steps - 1);
  const double peak = options_.pct_start * static_cast<double>(options_.total_steps) - 1.0;
  const double at = std::min(static_cast<double>(applied_steps), last);
  const double start = 1.0 / options_.div_factor;
  const double end = start / options_.final_div_factor;
  if (peak > 0 && at <= peak) return cosine_between(start, 1.0, at / peak);
  const double from = std::max(peak, 0.0);  // no rising part: start at the top
  return last > from ? cosine_between(1.0, end, (at - from) / (last - from)) : 1.0;
}

StatusOr<LrScheduleKind> parse_lr_schedule(std::string_view name) {
  if (name == "constant") return LrScheduleKind::kConstant;
  if (name == "cosine" || name == "warmup-cosine") return LrScheduleKind::kCosine;
  if (name == "step") return LrScheduleKind::kStep;
  if (name == "one-cycle") return LrScheduleKind::kOneCycle;
  const std::vector<std::string> all = {"constant", "cosine", "warmup-cosine", "step", "one-cycle"};
  return invalid_argument("--schedule: unknown '" + printable(name) + "'." +
                          did_you_mean(name, all) + " There are: " + join(all, ", "));
}

std::string_view lr_schedule_name(LrScheduleKind kind) {
  switch (kind) {
    case LrScheduleKind::kCosine: return "cosine";
    case LrScheduleKind::kStep: return "step";
    case LrScheduleKind::kOneCycle: return "one-cycle";
    default: return "constant";
  }
}

}  // namespace mezzo::runtime
