#include "tools/mezzo/train_report.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "compiler/support/text.h"
#include "passes/autodiff/select_parameters.h"
#include "tools/mezzo/group_rules.h"

namespace mezzo::cli {
namespace {

constexpr std::size_t kColumns = 98;
constexpr std::size_t kMostTold = 6;

void print_names(const std::vector<std::string>& names, const std::string& indent) {
  std::string line = indent;
  for (const std::string& name : names) {
    if (line.size() + name.size() > kColumns && line.size() > indent.size()) {
      std::printf("%s\n", line.c_str());
      line = indent;
    }
    line += " " + printable(name);
  }
  std::printf("%s\n", line.c_str());
}

}  // namespace

void print_groups(const std::vector<runtime::ParameterGroup>& groups) {
  if (groups.size() == 1 && groups[0].name.empty()) {
    print_names(groups[0].parameters, " ");
    return;
  }
  for (const runtime::ParameterGroup& group : groups) {
    const std::string name = group.name.empty() ? "no group" : "'" + printable(group.name) + "'";
    std::printf("  %s: %s%s%s\n", name.c_str(), describe(group.settings).c_str(),
                group.instance.empty() ? "" : ", instance ", printable(group.instance).c_str());
    print_names(group.parameters, "   ");
  }
}

void keep_named(std::map<std::string, std::string>& reasons,
                const std::vector<std::string>& names) {
  const std::set<std::string> kept(names.begin(), names.end());
  std::erase_if(reasons, [&](const auto& entry) { return kept.count(entry.first) == 0; });
}

void print_untrained(const std::map<std::string, std::string>& reasons) {
  std::vector<std::string> told;
  for (const auto& [name, reason] : reasons) {
    if (reason != passes::kFrozenByOption && reason != passes::kNotUpdated)
      told.push_back("'" + printable(name) + "' (" + printable(reason) + ")");
  }
  if (told.empty()) return;
  const std::size_t more = told.size() > kMostTold ? told.size() - kMostTold : 0;
  told.resize(told.size() - more);
  std::printf("  not trained: %s%s\n", join(told, ", ").c_str(),
              more > 0 ? (", and " + std::to_string(more) + " more").c_str() : "");
}

nlohmann::json groups_json(const std::vector<runtime::ParameterGroup>& groups) {
  nlohmann::json rows = nlohmann::json::array();
  for (const runtime::ParameterGroup& group : groups) {
    nlohmann::json row = {{"name", printable(group.name)}, {"parameters", group.parameters}};
    if (group.settings.frozen) {
      row["frozen"] = true;
    } else {
      row["optimizer"] = std::string(runtime::optimizer_name(group.settings.kind));
      if (!group.instance.empty()) row["instance"] = printable(group.instance);
      row["lr"] = group.settings.lr;
      row["weight_decay"] = group.settings.weight_decay;
      row["settings"] = describe(group.settings);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

nlohmann::json optimizers_json(const runtime::Trainer& trainer) {
  nlohmann::json rows = nlohmann::json::array();
  for (const runtime::OptimizerProgress& optimizer : trainer.optimizers())
    rows.push_back({{"name", optimizer.name}, {"applied_steps", optimizer.applied_steps}});
  return rows;
}

void print_profile(const runtime::Executor& executor) {
  std::map<std::string, std::pair<double, std::uint64_t>> by_kind;
  double total = 0;
  for (const runtime::StepProfile& row : executor.profile()) {
    auto& [ms, count] = by_kind[row.op + "  " + row.implementation];
    ms += row.total_ms;
    count += row.runs;
    total += row.total_ms;
  }
  std::vector<std::pair<double, std::string>> rows;
  for (const auto& [name, cost] : by_kind) rows.emplace_back(cost.first, name);
  std::sort(rows.rbegin(), rows.rend());
  for (const auto& [ms, name] : rows)
    std::printf("%6.1f %%  %9.2f ms  %s\n", 100 * ms / total, ms, name.c_str());
}

}  // namespace mezzo::cli
