// The report for terminals.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/report/format.h"
#include "compiler/report/report.h"
#include "compiler/report/text_table.h"
#include "compiler/support/text.h"

namespace mezzo {
namespace {

std::string node_table(const Records& records, int width) {
  TextTable table({{"node", false, 16},
                   {"op", false, 8},
                   {"runs in"},
                   {"rule"},
                   {"flops", true},
                   {"bytes", true},
                   {"cause", false, 20}});
  for (const NodeDecision& node : records.nodes) {
    table.add({printable(node.scope + node.node), printable(node.op_type),
               std::string(short_dtype(node.dtype)), std::string(rule_name(node.rule)),
               node.flops > 0 ? format_flops(node.flops) : "-", format_bytes(node.bytes),
               printable(node.cause)});
  }
  return table.empty() ? "no nodes\n" : table.text(width);
}

std::string cast_table(const Records& records, int width) {
  TextTable table({{"cast of", false, 16},
                   {"made by", false, 12},
                   {"types"},
                   {"bytes", true},
                   {"readers", true},
                   {"cause", false, 20}});
  for (const CastDecision& cast : records.casts) {
    const std::string when = cast.ahead_of_time ? "stored"
                             : cast.removed     ? "removed"
                                                : format_bytes(cast.bytes);
    table.add({printable(cast.scope + cast.value), printable(cast.producer),
               fmt::format("{}->{}", short_dtype(cast.from), short_dtype(cast.to)), when,
               std::to_string(cast.consumers.size()), printable(cast.cause)});
  }
  return table.empty() ? "no casts\n" : table.text(width);
}

std::string rule_table(const Records& records, int width) {
  struct Counts {
    std::size_t low = 0, high = 0, other = 0;
    double low_flops = 0, high_flops = 0;
  };
  std::array<Counts, kRuleCount> rules;
  for (const NodeDecision& node : records.nodes) {
    Counts& counts = rules[static_cast<std::size_t>(node.rule)];
    const bool low = is_low(node.dtype);
    ++(node.dtype == DType::kNone ? counts.other : low ? counts.low : counts.high);
    (low ? counts.low_flops : counts.high_flops) += node.flops;
  }
  TextTable table({{"rule"},
                   {"low", true},
                   {"fp32", true},
                   {"no float", true},
                   {"low flops", true},
                   {"fp32 flops", true}});
  for (int i = 0; i < kRuleCount; ++i) {
    const Counts& counts = rules[static_cast<std::size_t>(i)];
    if (counts.low + counts.high + counts.other == 0) continue;
    table.add({std::string(rule_name(static_cast<Rule>(i))), std::to_string(counts.low),
               std::to_string(counts.high), std::to_string(counts.other),
               format_flops(counts.low_flops), format_flops(counts.high_flops)});
  }
  return table.empty() ? "" : "\n" + table.text(width);
}

std::string before_after(std::uint64_t before, std::uint64_t after) {
  std::string text = format_bytes(before) + " -> " + format_bytes(after);
  if (before > 0) {
    text +=
        fmt::format(" ({:.0f}%)", 100.0 * static_cast<double>(after) / static_cast<double>(before));
  }
  return text;
}

std::string error_text(double error) {
  if (error >= CalibrationRecord::kInfiniteError) return "infinite";
  return fmt::format("{:.2g}", error);
}

std::string places(const std::vector<std::string>& sources) {
  std::string text = sources.empty() ? "" : printable(sources.front(), 60);
  if (sources.size() > 1) text += fmt::format(" and {} more", sources.size() - 1);
  return text;
}

// One line for the change, one for the proposal, one for the error: what is there to say.
std::string calibration_lines(const Records& records) {
  if (!records.calibration) return "";
  const CalibrationRecord& found = *records.calibration;
  const auto to_fp32 = static_cast<std::size_t>(std::count_if(
      found.changes.begin(), found.changes.end(),
      [](const CalibrationChange& change) { return change.after == DType::kFloat32; }));
  std::string out = fmt::format("calibrated on {} sample{} of {}: {} of {} tensors near the limits",
                                found.samples, found.samples == 1 ? "" : "s", places(found.sources),
                                found.near_limit.size(), found.tensors);
  out += fmt::format(", {} node{} kept FP32 that would run low without it", to_fp32,
                     to_fp32 == 1 ? "" : "s");
  if (found.changes.size() > to_fp32)
    out += fmt::format(", {} low instead", found.changes.size() - to_fp32);
  out += "\n";
  constexpr std::size_t kMost = 5;
  for (std::size_t i = 0; i < std::min(kMost, found.near_limit.size()); ++i) {
    const MeasuredTensor& tensor = found.near_limit[i];
    out += "  '" + printable(tensor.scope + tensor.tensor, 60) + "' " +
           printable(tensor.note, 200) + "\n";
  }
  if (found.near_limit.size() > kMost)
    out += fmt::format("  and {} more, see --json or --report\n", found.near_limit.size() - kMost);
  if (found.avoided_by_bf16 > 0)
    out += fmt::format("  {} of these would run low in BF16: --precision bf16\n",
                       found.avoided_by_bf16);
  if (found.output_error >= 0) {
    out += fmt::format("outputs on {} sample{}: within {} of FP32{}\n", found.checked_samples,
                       found.checked_samples == 1 ? "" : "s", error_text(found.output_error),
                       found.worst_output.empty()
                           ? ""
                           : " ('" + printable(found.worst_output, 60) + "' the farthest)");
  }
  return out;
}

std::string comparison_table(const Records& records) {
  TextTable table({{"policy"},
                   {"low flops", true},
                   {"casts", true},
                   {"bytes cast", true},
                   {"weights", true},
                   {"activations", true},
                   {"predicted", true}});
  for (const PolicyFigures& figures : records.comparison) {
    table.add({printable(figures.policy, 60) + (figures.chosen ? " (this)" : ""),
               format_share(figures.low_flops, figures.flops), std::to_string(figures.casts),
               format_bytes(figures.cast_bytes), format_bytes(figures.weight_bytes),
               format_bytes(figures.activation_bytes), format_us(figures.predicted_us)});
  }
  return table.empty() ? "" : table.text();
}

}  // namespace

std::string report_totals(const Report& report) {
  const ReportTotals& totals = report.totals;
  const Records& records = report.records;
  std::string out = fmt::format("low precision: {} of {}, {} of {} nodes\n",
                                format_share(totals.low_flops, totals.flops),
                                format_flops(totals.flops), totals.low_nodes, totals.nodes);
  out += fmt::format("casts at run time: {}, moving {}\n", totals.casts,
                     format_bytes(totals.cast_bytes));
  if (records.weight_bytes_before > 0) {
    out +=
        "weights: " + before_after(records.weight_bytes_before, records.weight_bytes_after) + "\n";
  }
  if (records.activation_bytes_before > 0) {
    out += "activations: " +
           before_after(records.activation_bytes_before, records.activation_bytes_after) + "\n";
  }
  if (records.planned_peak_bytes > 0) {
    out += fmt::format("planned peak: {} ({} alive together at most)\n",
                       format_bytes(records.planned_peak_bytes), format_bytes(records.live_bytes));
  }
  const AssignmentCost& cost = records.cost;
  if (cost.objective_us > 0) {
    out += fmt::format("predicted on {}: {} ({}), all fp32 {}, {} {}\n",
                       printable(records.target, 40), format_us(cost.objective_us),
                       printable(cost.method, 40), format_us(cost.all_fp32_us),
                       cost.method == "cut" ? "propagate" : "cut", format_us(cost.alternative_us));
  }
  out += calibration_lines(records);
  out += comparison_table(records);
  out.pop_back();
  return out;
}

std::string report_text(const Report& report, int width) {
  const Records& records = report.records;
  std::string out = node_table(records, width) + "\n" + cast_table(records, width);
  out += rule_table(records, width);
  if (!records.pads.empty()) out += "\n";
  for (const std::string& pad : records.pads) out += "pad: " + printable(pad, 400) + "\n";
  if (!records.warnings.empty()) out += "\n";
  for (const std::string& warning : records.warnings)
    out += "warning: " + printable(warning, 400) + "\n";
  return out;
}

}  // namespace mezzo
