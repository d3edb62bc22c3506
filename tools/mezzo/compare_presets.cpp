#include "tools/mezzo/compare_presets.h"

#include <algorithm>
#include <set>
#include <vector>

#include "passes/precision/policy_file.h"
#include "tools/mezzo/convert_model.h"
#include "tools/mezzo/options.h"

namespace mezzo::cli {
namespace {

PolicyFigures figures_of(const std::string& policy, const Report& report) {
  PolicyFigures figures;
  figures.policy = policy;
  figures.flops = report.totals.flops;
  figures.low_flops = report.totals.low_flops;
  figures.casts = report.totals.casts;
  figures.cast_bytes = report.totals.cast_bytes;
  figures.weight_bytes = report.records.weight_bytes_after;
  figures.activation_bytes = report.records.activation_bytes_after;
  figures.predicted_us = report.records.cost.objective_us;
  return figures;
}

StatusOr<passes::PrecisionPolicy> preset_for(const std::string& name, const PolicyOptions& options,
                                             const passes::PrecisionPolicy& chosen) {
  MEZZO_ASSIGN_OR_RETURN(const passes::PolicyFile preset, passes::find_preset(name));
  passes::PrecisionPolicy policy = preset.resolve();
  policy.low = chosen.low;
  policy.force_fp32 = chosen.force_fp32;
  policy.target = chosen.target;
  policy.io = chosen.io;
  if (!options.assign.empty()) policy.assign = chosen.assign;
  policy.pad_channels = chosen.pad_channels;
  policy.pins = chosen.pins;
  policy.deny_ops = chosen.deny_ops;
  policy.allow_ops = chosen.allow_ops;
  return policy;
}

}  // namespace

Status compare_presets(const std::string& path, const PolicyOptions& options,
                       const passes::PrecisionPolicy& chosen, Compared compared, Report& report,
                       const std::shared_ptr<const passes::Calibration>& calibration) {
  if (chosen.force_fp32) return ok_status();  // all of them would keep everything
  std::vector<std::string> names = {"default", "inference"};
  if (compared == Compared::kAllPresets) {
    for (const std::string& name : passes::preset_names()) {
      if (name != "default" && name != "inference") names.push_back(name);
    }
  }
  // Of two that differ in their type alone, the one made for this type gives the row its name.
  std::stable_partition(names.begin() + 2, names.end(), [&](const std::string& name) {
    const StatusOr<passes::PolicyFile> preset = passes::find_preset(name);
    return preset.ok() && preset->resolve().low == chosen.low;
  });
  std::vector<PolicyFigures> rows;
  std::set<std::string> seen = {passes::policy_json(chosen)};
  PolicyFigures own = figures_of(chosen.name, report);
  own.chosen = true;
  rows.push_back(own);
  for (const std::string& name : names) {
    MEZZO_ASSIGN_OR_RETURN(const passes::PrecisionPolicy policy, preset_for(name, options, chosen));
    if (!seen.insert(passes::policy_json(policy)).second) continue;
    const StatusOr<Converted> other =
        convert_model(path, policy, padding_of(policy), {}, calibration);
    if (!other.ok()) {  // no reason to withhold what was asked for
      report.records.warnings.push_back("preset '" + name +
                                        "' is not compared: " + other.status().message());
      continue;
    }
    rows.push_back(figures_of(name, make_report(*other->model, other->records)));
  }
  report.records.comparison = std::move(rows);
  return ok_status();
}

}  // namespace mezzo::cli
