// What `mezzo train` says of a run.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/exec/executor.h"
#include "runtime/exec/trainer.h"

namespace mezzo::cli {

// The names of what is trained; with several groups or one that is named, by group with its
// settings.
void print_groups(const std::vector<runtime::ParameterGroup>& groups);

// Leaves what one of the names says, without what the compiler made.
void keep_named(std::map<std::string, std::string>& reasons, const std::vector<std::string>& names);

// One line naming what the loss depends on and that is not trained all the same, for a reason that
// the user did not give: "not trained: 'lstm/B' (mask), ... and 3 more".
void print_untrained(const std::map<std::string, std::string>& reasons);

// [{"name", "settings", "optimizer", "lr", "weight_decay", "parameters"}, ...]; of a frozen group
// {"name", "frozen": true, "parameters"}.
nlohmann::json groups_json(const std::vector<runtime::ParameterGroup>& groups);

// [{"name", "applied_steps"}, ...]
nlohmann::json optimizers_json(const runtime::Trainer& trainer);

// What each kind of operator cost, dearest first.
void print_profile(const runtime::Executor& executor);

}  // namespace mezzo::cli
