// The report for terminals.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/report/format.h"
#include "compiler/report/report.h"
#include "compiler/support/text.h"

namespace mezzo {
namespace {

// Columns a UTF-8 text takes, a code point counted as one.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// At most `width` columns, "..." at the end where something was cut.
std::string cut(const std::string& text, std::size_t width) {
  if (columns(text) <= width) return text;
  const std::size_t keep = width < 4 ? width : width - 3;
  std::size_t end = 0, seen = 0;
  while (end < text.size()) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) != 0x80 && seen++ == keep) break;
    ++end;
  }
  return text.substr(0, end) + (width < 4 ? "" : "...");
}

// Rows of text under a heading, columns aligned.
class Table {
 public:
  // `narrowest`: how far a column may be cut where the terminal is too narrow; 0: never.
  struct Column {
    const char* title;
    bool right = false;
    std::size_t narrowest = 0;
  };
  explicit Table(std::vector<Column> columns_of_table) : columns_(std::move(columns_of_table)) {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }

  std::string text(int width) const {
    const std::vector<std::size_t> widths = fit(width);
    std::string out;
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.emplace_back(column.title);
    append(out, titles, widths);
    for (const auto& row : rows_) append(out, row, widths);
    return out;
  }

 private:
  static constexpr std::size_t kGap = 2;

  std::vector<std::size_t> fit(int width) const {
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      std::size_t widest = columns(columns_[i].title);
      for (const auto& row : rows_) widest = std::max(widest, columns(row[i]));
      widths.push_back(widest);
    }
    if (width <= 0) return widths;
    std::size_t total = std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
    // The widest column that may still be cut gives way, one column at a time.
    while (total > static_cast<std::size_t>(width)) {
      std::size_t victim = columns_.size();
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        const bool can = columns_[i].narrowest > 0 && widths[i] > columns_[i].narrowest;
        if (can && (victim == columns_.size() || widths[i] > widths[victim])) victim = i;
      }
      if (victim == columns_.size()) break;
      --widths[victim];
      --total;
    }
    return widths;
  }

  void append(std::string& out, const std::vector<std::string>& row,
              const std::vector<std::size_t>& widths) const {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = cut(row[i], widths[i]);
      const std::string padding(widths[i] - std::min(widths[i], columns(cell)), ' ');
      line += columns_[i].right ? padding + cell : cell + padding;
      if (i + 1 < row.size()) line.append(kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string node_table(const Records& records, int width) {
  Table table({{"node", false, 16},
               {"op", false, 8},
               {"runs in"},
               {"rule"},
               {"flops", true},
               {"bytes", true},
               {"cause", false, 20}});
  for (const NodeDecision& node : records.nodes) {
    table.add({printable(node.node), printable(node.op_type), std::string(short_dtype(node.dtype)),
               std::string(rule_name(node.rule)), node.flops > 0 ? format_flops(node.flops) : "-",
               format_bytes(node.bytes), printable(node.cause)});
  }
  return table.empty() ? "no nodes\n" : table.text(width);
}

std::string cast_table(const Records& records, int width) {
  Table table({{"cast of", false, 16},
               {"made by", false, 12},
               {"types"},
               {"bytes", true},
               {"readers", true},
               {"cause", false, 20}});
  for (const CastDecision& cast : records.casts) {
    const std::string when = cast.ahead_of_time ? "stored"
                             : cast.removed     ? "removed"
                                                : format_bytes(cast.bytes);
    table.add({printable(cast.value), printable(cast.producer),
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
  Table table({{"rule"},
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
    text += fmt::format(" ({:.0f}%)", 100.0 * static_cast<double>(after) / static_cast<double>(before));
  }
  return text;
}

}  // namespace

std::string report_totals(const Report& report) {
  const ReportTotals& totals = report.totals;
  const Records& records = report.records;
  std::string out = fmt::format(
      "low precision: {} of {}, {} of {} nodes\n", format_share(totals.low_flops, totals.flops),
      format_flops(totals.flops), totals.low_nodes, totals.nodes);
  out += fmt::format("casts at run time: {}, moving {}\n", totals.casts, format_bytes(totals.cast_bytes));
  if (records.weight_bytes_before > 0) {
    out += "weights: " + before_after(records.weight_bytes_before, records.weight_bytes_after) + "\n";
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
    out += fmt::format("predicted on {}: {} ({}), all fp32 {}, {} {}\n", printable(records.target, 40),
                       format_us(cost.objective_us), printable(cost.method, 40),
                       format_us(cost.all_fp32_us), cost.method == "cut" ? "propagate" : "cut",
                       format_us(cost.alternative_us));
  }
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
  for (const std::string& warning : records.warnings) out += "warning: " + printable(warning, 400) + "\n";
  return out;
}

}  // namespace mezzo
