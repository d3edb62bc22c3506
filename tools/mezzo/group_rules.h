// `--group 'PATTERN:key=value,...'`: settings of the parameters whose name matches.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/support/status.h"
#include "compiler/support/text.h"
#include "runtime/exec/trainer.h"

namespace mezzo::cli {

// One --group. Keys: optimizer, instance, lr or lr-scale (of --lr), weight-decay, momentum,
// dampening, nesterov, betas, eps, lr-decay, initial-accumulator, adamw-form, frozen; with
// underscores as well. "frozen" and "nesterov" may stand alone for true.
struct GroupRule {
  Pattern pattern;
  std::map<std::string, std::string> settings;

  // InvalidArgument: no such form, an unknown key (with a suggestion), a key given twice, a value
  // that is no number. What the optimizer says of the values, settings() says.
  static StatusOr<GroupRule> parse(const std::string& text);

  bool frozen() const;
  bool sets(const std::string& key) const { return settings.count(key) > 0; }
  // The group's settings where the rest is as in `base`; eps is the kind's own unless the rule, or
  // else `base_has_eps`, gives it. InvalidArgument: a value out of range, or a key that the kind
  // does not know.
  StatusOr<runtime::OptimizerGroup> apply(const runtime::OptimizerGroup& base,
                                          bool base_has_eps) const;
};

// What there is to assign, by name.
struct ParameterNames {
  std::vector<std::string> all;      // floating-point initializers of the model
  std::vector<std::string> trained;  // those that training changes
  std::set<std::string> undecayed;   // without decay, unless a rule sets it
};

// Regular expressions for TrainingOptions::freeze: what the rules with "frozen" say, and no earlier
// rule takes. InvalidArgument: one of them matches none of `all`.
StatusOr<std::vector<std::string>> frozen_patterns(const std::vector<GroupRule>& rules,
                                                   const std::vector<std::string>& all);

// The groups of a run: for every parameter the first rule that matches. The group of those that no
// rule matches comes first, named "", if there are any; a group of which some parameters are
// undecayed comes in two. InvalidArgument: a rule that no parameter is left for, saying why.
StatusOr<std::vector<runtime::ParameterGroup>> assign_groups(const std::vector<GroupRule>& rules,
                                                             const runtime::OptimizerGroup& base,
                                                             bool base_has_eps,
                                                             const ParameterNames& names);

// "adamw, lr 0.001, betas 0.9,0.999, eps 1e-08, weight decay 0.01"
std::string describe(const runtime::OptimizerGroup& group);

// Does the optimizer have the setting? REQUIRES: a key of GroupRule.
bool knows(const std::string& optimizer, const std::string& key);

// "0.9,0.999"
Status parse_betas(const std::string& text, double& beta1, double& beta2);

}  // namespace mezzo::cli
