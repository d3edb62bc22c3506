// What is said of a step whose gradients or loss are not finite.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compiler/support/text.h"
#include "runtime/exec/trainer.h"

namespace mezzo::runtime {
namespace {

// The backward phase's step that computes a tensor; those nearer to the loss come first.
int producing_step(const proto::Plan& plan, int tensor) {
  for (const proto::Phase& phase : plan.phases()) {
    if (phase.kind() != proto::PHASE_BACKWARD) continue;
    for (int i = 0; i < phase.steps_size(); ++i) {
      for (const int output : phase.steps(i).outputs()) {
        if (output == tensor) return i;
      }
    }
  }
  return std::numeric_limits<int>::max();
}

int gradient_of(const proto::Plan& plan, const std::string& parameter) {
  for (const proto::Parameter& p : plan.parameters()) {
    if (p.name() == parameter) return p.gradient();
  }
  return -1;
}

}  // namespace

// Of the step that was just taken.
std::vector<Optimizer::BadGradient> Trainer::bad_gradients(std::size_t unit) const {
  if (device_ == nullptr) return units_[unit].optimizer.bad_gradients();
  std::vector<Optimizer::BadGradient> result;
  if (!units_[unit].overflow) return result;  // of those alone the device has counted
  std::size_t first = 0;
  for (std::size_t i = 0; i < unit; ++i) first += units_[i].optimizer.parameters().size();
  const auto counts = device_->training().bad_gradients();
  if (!counts.ok()) return result;
  for (std::size_t i = 0; i < units_[unit].optimizer.parameters().size(); ++i) {
    const DeviceTraining::BadCount& count = (*counts)[first + i];
    if (count.infs + count.nans > 0) result.push_back({i, count.infs, count.nans});
  }
  return result;
}

// "gradients of 3 of 8 parameters hold inf or NaN, the first in the backward pass that of 'fc2.w'
// (group '^fc2', 4 inf, 0 NaN of 64 elements)". Where every gradient is finite and only unscaling
// or the norm is not, it says so.
std::string Trainer::overflow_cause() const {
  const proto::Plan& plan = executor_.plan();
  std::size_t bad_count = 0, all = 0;
  int first_step = -1;
  std::string first;
  for (std::size_t index = 0; index < units_.size(); ++index) {
    const Unit& unit = units_[index];
    for (const OptimizerParameter& parameter : unit.optimizer.parameters())
      all += unit.optimizer.groups()[static_cast<std::size_t>(parameter.group)].frozen ? 0 : 1;
    for (const Optimizer::BadGradient& bad : bad_gradients(index)) {
      const OptimizerParameter& parameter = unit.optimizer.parameters()[bad.parameter];
      ++bad_count;
      const int step = producing_step(plan, gradient_of(plan, parameter.name));
      if (!first.empty() && step >= first_step) continue;
      first_step = step;
      const std::string& group = unit.group_names[static_cast<std::size_t>(parameter.group)];
      first = "'" + printable(parameter.name) + "' (" +
              (units_.size() > 1 ? "optimizer " + unit.name + ", " : std::string()) +
              (group.empty() ? std::string() : "group '" + printable(group) + "', ") +
              std::to_string(bad.infs) + " inf, " + std::to_string(bad.nans) + " NaN of " +
              std::to_string(parameter.elems) + " elements)";
    }
  }
  if (first.empty()) return "every gradient is finite, but not their norm after unscaling";
  return "gradients of " + std::to_string(bad_count) + " of " + std::to_string(all) +
         " parameters hold inf or NaN, the first in the backward pass that of " + first;
}

// For --on-overflow abort, and without a loss scale.
Status Trainer::at_step(const Status& status) const {
  return status.ok() ? status : status.with_context("step " + std::to_string(step_));
}

Status Trainer::check_overflow(const StepMetrics& metrics) const {
  std::string text = "step " + std::to_string(metrics.step) + ": ";
  if (!std::isfinite(metrics.loss)) {
    text += std::string("the loss is ") + (std::isnan(metrics.loss) ? "NaN" : "infinite");
    if (metrics.step > 1 && last_step_.step == metrics.step - 1)
      text += ", after " + format_number(last_step_.loss) + " in the step before";
    if (metrics.skipped_optimizers != 0) text += "; " + overflow_cause();
    text +=
        ". No loss scale mends that: a value of the forward pass left the range of its type. Hint: "
        "lower --lr, warm up (--warmup-steps), limit gradients (--clip-norm), look at the data of "
        "this step";
  } else {
    text += overflow_cause();
    text += scaler_.options().mode == LossScaleMode::kDynamic
                ? " (--on-overflow abort). Hint: a dynamic loss scale overflows now and then; "
                  "--on-overflow skip goes on with a lower one"
                : ". Hint: lower --lr or limit gradients (--clip-norm)";
  }
  const bool dynamic = scaler_.options().mode == LossScaleMode::kDynamic;
  return invalid_argument(text + (dynamic ? "" : "; --on-overflow skip leaves such steps out"));
}

// The loss scale cannot shrink, or too many steps were skipped.
Status Trainer::no_progress() const {
  return invalid_argument("step " + std::to_string(step_) + ": " +
                          scaler_.check_progress(overflow_cause()).message());
}

}  // namespace mezzo::runtime
