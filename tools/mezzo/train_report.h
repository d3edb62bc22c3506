// What `mezzo train` says of a run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/exec/executor.h"
#include "runtime/exec/trainer.h"

namespace mezzo::cli {

// The names of what is trained; with several groups or one that is named, by group with its
// settings.
void print_groups(const std::vector<runtime::ParameterGroup>& groups);

// [{"name", "settings", "optimizer", "lr", "weight_decay", "parameters"}, ...]; of a frozen group
// {"name", "frozen": true, "parameters"}.
nlohmann::json groups_json(const std::vector<runtime::ParameterGroup>& groups);

// [{"name", "applied_steps"}, ...]
nlohmann::json optimizers_json(const runtime::Trainer& trainer);

// What each kind of operator cost, dearest first.
void print_profile(const runtime::Executor& executor);

}  // namespace mezzo::cli
