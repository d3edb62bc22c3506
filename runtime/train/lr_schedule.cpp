#include "runtime/train/lr_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "compiler/support/text.h"

namespace mezzo::runtime {
namespace {

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
    case LrScheduleKind::kLinear:
    case LrScheduleKind::kPolynomial:
    case LrScheduleKind::kCosine:
      if (o.total_steps <= o.warmup_steps) {
        return bad("--warmup-steps",
                   "fewer than the " + std::to_string(o.total_steps) + " steps of the schedule",
                   warmup);
      }
      if (!(o.min_factor >= 0 && o.min_factor <= 1)) {
        return bad("--lr-end-factor", "0 to 1", o.min_factor);
      }
      if (!(o.power > 0 && std::isfinite(o.power))) {
        return bad("--lr-power", "a number above 0", o.power);
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
      if (!(o.pct_start >= 0 && o.pct_start <= 1)) return bad("--lr-rise", "0 to 1", o.pct_start);
      if (!(o.div_factor > 0)) return bad("--lr-div", "a number above 0", o.div_factor);
      if (!(o.final_div_factor > 0))
        return bad("--lr-final-div", "a number above 0", o.final_div_factor);
      break;
  }
  return LrSchedule(o);
}

namespace {
constexpr std::array<std::string_view, 6> kNames = {"constant", "linear", "polynomial",
                                                    "cosine",   "step",   "one-cycle"};
}  // namespace

std::vector<std::string> lr_schedule_names() {
  std::vector<std::string> names(kNames.begin(), kNames.end());
  names.emplace_back("warmup-cosine");
  return names;
}

StatusOr<LrScheduleKind> parse_lr_schedule(std::string_view name) {
  if (name == "warmup-cosine") return LrScheduleKind::kCosine;
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found != kNames.end()) return static_cast<LrScheduleKind>(found - kNames.begin());
  const std::vector<std::string> all = lr_schedule_names();
  return invalid_argument("--schedule: unknown '" + printable(name) + "'." +
                          did_you_mean(name, all) + " There are: " + join(all, ", "));
}

std::string_view lr_schedule_name(LrScheduleKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace mezzo::runtime
