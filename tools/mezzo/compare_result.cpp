#include "tools/mezzo/compare_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/report/format.h"
#include "compiler/report/text_table.h"
#include "compiler/support/json_util.h"
#include "compiler/support/text.h"
#include "passes/precision/borders.h"

namespace mezzo::cli {
namespace {

using nlohmann::json;
using numerics::Blame;
using numerics::BlamedNode;
using numerics::error_text;
using numerics::TensorComparison;

constexpr std::size_t kWorst = 10;
constexpr std::size_t kMostBlamed = 20;  // printed

std::string plural(std::uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string maker(const Value& value) {
  const Node* node = value.producer();
  if (node == nullptr) return value.is_graph_input() ? "input" : "initializer";
  return fmt::format("'{}' ({})", printable(display_name(*node), 60), printable(node->op_type()));
}

std::vector<const TensorComparison*> worst(const numerics::Comparison& comparison) {
  std::vector<const TensorComparison*> rows;
  for (const TensorComparison& row : comparison.tensors) {
    if (row.times > 0 && row.difference.error > 0) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const TensorComparison* x, const TensorComparison* y) {
                     return x->difference.error > y->difference.error;
                   });
  // A cast is as far off as what it casts: of those that stand for one tensor the worst counts.
  std::set<const Value*> seen;
  std::erase_if(rows, [&](const TensorComparison* row) { return !seen.insert(row->a).second; });
  if (rows.size() > kWorst) rows.resize(kWorst);
  return rows;
}

std::string there_and_here(const TensorComparison& row) {
  if (!row.difference.comparable) return "the shapes differ";
  if (row.difference.index < 0) return "";
  return fmt::format("{} became {}", numerics::number_text(row.difference.a_there),
                     numerics::number_text(row.difference.b_there));
}

std::string departure_text(const CompareResult& result) {
  const TensorComparison* first = result.comparison.first_departure(result.tolerance);
  if (first == nullptr) return "no tensor departs\n";
  std::string text = fmt::format("first to depart: '{}' ({}), made by {}: error {}",
                                 printable(full_name(*first->b), 80), dtype_name(first->b->dtype()),
                                 maker(*first->b), error_text(first->difference.error));
  if (const std::string values = there_and_here(*first); !values.empty()) text += ", " + values;
  if (first->times > 1) text += fmt::format(", in iteration {}", first->iteration);
  return text + fmt::format("; in FP32 {}\n", numerics::range_text(first->range_a));
}

std::string worst_table(const CompareResult& result, int width) {
  TextTable table({{"tensor", false, 16},
                   {"made by", false, 16},
                   {"type"},
                   {"error", true},
                   {"at its worst", false, 12},
                   {"range in fp32", false, 12}});
  for (const TensorComparison* row : worst(result.comparison)) {
    table.add({printable(full_name(*row->b)), maker(*row->b),
               std::string(short_dtype(row->b->dtype())), error_text(row->difference.error),
               there_and_here(*row), numerics::range_text(row->range_a)});
  }
  return table.empty() ? "" : "worst tensors:\n" + table.text(width);
}

std::string blamed_line(const BlamedNode& blamed) {
  const Node& node = *blamed.lowered->node;
  std::string line = fmt::format(
      "  '{}' ({})", printable(passes::scope_of(*node.graph()) + display_name(node), 80),
      printable(node.op_type()));
  if (!std::isnan(blamed.own_error))
    line += fmt::format(": error of its own {}", error_text(blamed.own_error));
  if (!blamed.result.empty()) line += ", " + blamed.result;
  if (!blamed.operands.empty()) line += "; reads " + printable(blamed.operands, 300);
  return line + "\n";
}

std::string blame_text(const Blame& blame) {
  switch (blame.outcome) {
    case Blame::Outcome::kNothingLow:
      return "blame: the second model lowers no node of the first, so the cause lies elsewhere\n";
    case Blame::Outcome::kNotReproduced:
      return fmt::format(
          "blame: lowering the same {} in the first model gives an error of {} only, so the cause "
          "lies elsewhere (other weights, another graph)\n",
          plural(blame.candidates, "node"), error_text(blame.error_before));
    case Blame::Outcome::kNotEnough:
      return fmt::format("blame: even with all {} lowered nodes in FP32 the outputs depart by {}\n",
                         blame.candidates, error_text(blame.error_after));
    case Blame::Outcome::kOutOfRuns:
      return fmt::format(
          "blame: no set of nodes was found that is enough within {}. Hint: give "
          "more with --max-runs\n",
          plural(blame.runs, "run"));
    case Blame::Outcome::kFound: break;
  }
  std::string text =
      fmt::format("blame: {} of {} lowered nodes; back in FP32, the outputs come within {} ({})\n",
                  blame.nodes.size(), blame.candidates, error_text(blame.error_after),
                  blame.minimal ? "none of them can be left out"
                                : "fewer may do: the runs allowed by --max-runs were used up");
  for (std::size_t i = 0; i < std::min(kMostBlamed, blame.nodes.size()); ++i)
    text += blamed_line(blame.nodes[i]);
  if (blame.nodes.size() > kMostBlamed)
    text += fmt::format("  and {} more, see --json\n", blame.nodes.size() - kMostBlamed);
  return text;
}

json difference_json(const TensorComparison& row) {
  json object = {{"tensor", full_name(*row.b)},
                 {"counterpart", full_name(*row.a)},
                 {"dtype", std::string(dtype_name(row.b->dtype()))},
                 {"error", json_from_number(row.difference.error)},
                 {"comparable", row.difference.comparable},
                 {"iteration", row.iteration},
                 {"nonfinite_a", row.difference.nonfinite_a},
                 {"nonfinite_b", row.difference.nonfinite_b},
                 {"lowest", row.range_a.lowest},
                 {"highest", row.range_a.highest}};
  if (row.b->producer() != nullptr) {
    object["node"] = display_name(*row.b->producer());
    object["op"] = row.b->producer()->op_type();
  }
  return object;
}

const char* outcome_word(Blame::Outcome outcome) {
  switch (outcome) {
    case Blame::Outcome::kFound: return "found";
    case Blame::Outcome::kNothingLow: return "nothing-low";
    case Blame::Outcome::kNotReproduced: return "not-reproduced";
    case Blame::Outcome::kNotEnough: return "not-enough";
    case Blame::Outcome::kOutOfRuns: return "out-of-runs";
  }
  return "?";
}

json blame_json(const Blame& blame) {
  json nodes = json::array();
  for (const BlamedNode& blamed : blame.nodes) {
    const Node& node = *blamed.lowered->node;
    nodes.push_back(
        {{"node", display_name(node)},
         {"scope", passes::scope_of(*node.graph())},
         {"op", node.op_type()},
         {"own_error",
          std::isnan(blamed.own_error) ? json(nullptr) : json_from_number(blamed.own_error)},
         {"operands", blamed.operands},
         {"result", blamed.result}});
  }
  return {{"outcome", outcome_word(blame.outcome)},
          {"nodes", std::move(nodes)},
          {"candidates", blame.candidates},
          {"minimal", blame.minimal},
          {"runs", blame.runs},
          {"error_before", json_from_number(blame.error_before)},
          {"error_after", json_from_number(blame.error_after)}};
}

}  // namespace

std::string full_name(const Value& value) {
  return passes::scope_of(*value.graph()) + value.name();
}

std::string compare_text(const CompareResult& result, int width) {
  const numerics::Comparison& found = result.comparison;
  std::string text = fmt::format("{} compared, {} of the second model without counterpart ({})\n",
                                 plural(found.tensors.size(), "tensor"), found.unmatched,
                                 plural(found.runs, "run"));
  if (found.left_over > 0) {
    text += fmt::format("{} could not be kept for comparison within --max-runs. Hint: --memory\n",
                        plural(found.left_over, "tensor"));
  }
  for (const TensorComparison& output : found.outputs) {
    text += fmt::format("output '{}': error {}, {} {}\n", printable(output.b->name(), 80),
                        error_text(output.difference.error),
                        output.difference.within(result.tolerance) ? "within" : "beyond",
                        numerics::number_text(result.tolerance));
  }
  text += departure_text(result);
  text += fmt::format(
      "not finite: {} ({}) in the first model, {} ({}) in the second\n",
      plural(found.nonfinite_tensors_a, "tensor"), plural(found.nonfinite_a, "element"),
      plural(found.nonfinite_tensors_b, "tensor"), plural(found.nonfinite_b, "element"));
  text += worst_table(result, width);
  if (result.blame) text += blame_text(*result.blame);
  if (!result.fix.empty()) {
    text += fmt::format("wrote {}: converted with it, the outputs come within {} ({} in FP32)\n",
                        result.fix, error_text(result.fixed_error.value_or(0)),
                        plural(result.fixed_nodes.size(), "node"));
  }
  return text + plural(result.runs, "run") + " of a graph in all\n";
}

json compare_json(const CompareResult& result) {
  const numerics::Comparison& found = result.comparison;
  json outputs = json::array(), rows = json::array();
  for (const TensorComparison& output : found.outputs) outputs.push_back(difference_json(output));
  for (const TensorComparison* row : worst(found)) rows.push_back(difference_json(*row));
  const TensorComparison* first = found.first_departure(result.tolerance);
  json object = {{"format", "mezzo-comparison"},
                 {"format_version", 1},
                 {"a", result.a},
                 {"b", result.b},
                 {"input", result.input},
                 {"tolerance", result.tolerance},
                 {"agrees", result.agrees()},
                 {"tensors", found.tensors.size()},
                 {"unmatched", found.unmatched},
                 {"left_over", found.left_over},
                 {"outputs", std::move(outputs)},
                 {"first_departure", first == nullptr ? json(nullptr) : difference_json(*first)},
                 {"worst", std::move(rows)},
                 {"nonfinite",
                  {{"tensors_a", found.nonfinite_tensors_a},
                   {"elements_a", found.nonfinite_a},
                   {"tensors_b", found.nonfinite_tensors_b},
                   {"elements_b", found.nonfinite_b}}},
                 {"runs", result.runs}};
  if (result.blame) object["blame"] = blame_json(*result.blame);
  if (!result.fix.empty()) {
    object["fix"] = {{"policy", result.fix},
                     {"nodes", result.fixed_nodes},
                     {"error", json_from_number(result.fixed_error.value_or(0))}};
  }
  return object;
}

}  // namespace mezzo::cli
