// Options of `mezzo train` for the optimizer, its schedule and the loss scale.
#pragma once

#include <string>
#include <vector>

#include "compiler/support/status.h"
#include "runtime/exec/trainer.h"
#include "tools/mezzo/group_rules.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mezzo::cli {

// --optimizer, its settings, --group, clipping, accumulation and the moving average.
class UpdateOptions {
 public:
  void add_to(CLI::App& app, runtime::TrainerOptions& trainer);
  // InvalidArgument: settings out of range or of no optimizer in use, a rule that does not parse.
  // With `model_may_choose` the settings are not yet held against the optimizer: the model may name
  // another one, and check_used() follows.
  Status read(runtime::TrainerOptions& trainer, bool model_may_choose = false);
  // InvalidArgument: a setting that neither the optimizer nor that of a --group knows.
  void add_kind_options(CLI::App& app, runtime::OptimizerGroup& group);
  void add_group_options(CLI::App& app);
  Status check_used(const runtime::OptimizerGroup& base) const;

  // After read().
  const std::vector<GroupRule>& rules() const { return rules_; }
  StatusOr<std::vector<runtime::ParameterGroup>> groups(const runtime::OptimizerGroup& base,
                                                        ParameterNames names) const;
  const std::string& optimizer() const { return optimizer_; }

 private:
  std::string optimizer_ = "sgd", betas_, form_ = "pytorch";
  std::vector<std::string> group_texts_;
  std::vector<GroupRule> rules_;
  bool no_decay_ = false;
  double eps_ = 0;
  CLI::Option* eps_option_ = nullptr;
  std::vector<std::pair<std::string, CLI::Option*>> kind_options_;  // key of the rules -> option
};

class ScheduleOptions {
 public:
  void add_to(CLI::App& app, runtime::LrScheduleOptions& schedule);
  // InvalidArgument: an option that the schedule does not know.
  Status read(runtime::LrScheduleOptions& schedule) const;
  const std::string& name() const { return schedule_; }

 private:
  std::string schedule_ = "constant";
  std::vector<std::pair<std::string, CLI::Option*>> shape_options_;
};

class ScaleOptions {
 public:
  void add_to(CLI::App& app, runtime::TrainerOptions& trainer);
  // `fp16`: does the run compute in FP16, where a dynamic scale is the default?
  Status read(bool fp16, runtime::TrainerOptions& trainer) const;

 private:
  std::string mode_, max_ = "65536", on_overflow_;
};

}  // namespace mezzo::cli
