// The picture of a converted graph, with each node led back to its record.

#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "compiler/report/report.h"

namespace mezzo {
namespace {

// Records by name, in order; names need not be unique in ONNX, so each record is given out once.
class Lookup {
 public:
  void add(const std::string& name, int index) { by_name_[name].push_back(index); }
  int take(const std::string& name) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end() || found->second.empty()) return -1;
    const int index = found->second.front();
    found->second.pop_front();
    return index;
  }

 private:
  std::unordered_map<std::string, std::deque<int>> by_name_;
};

std::string drawn_dtype(DType dtype) {
  return is_floating(dtype) ? std::string(dtype_name(dtype)) : std::string();
}

DType first_floating_result(const Node& node) {
  for (const Value* result : node.results()) {
    if (result != nullptr && is_floating(result->dtype())) return result->dtype();
  }
  return DType::kNone;
}

bool is_float_cast(const Node& node) {
  return node.is("Cast") && node.operand(0) != nullptr && node.result() != nullptr &&
         is_floating(node.operand(0)->dtype()) && is_floating(node.result()->dtype());
}

class Drawer {
 public:
  Drawer(const Graph& graph, Report& report) : graph_(graph), report_(report) {
    const auto& nodes = report.records.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].scope.empty()) decisions_.add(nodes[i].node, static_cast<int>(i));
    }
    const auto& casts = report.records.casts;
    for (std::size_t i = 0; i < casts.size(); ++i) {
      // Those within graphs of nodes are not drawn, and no later pass removes them.
      if (!casts[i].ahead_of_time && casts[i].scope.empty())
        casts_of_[casts[i].value].push_back(static_cast<int>(i));
    }
  }

  void run() {
    for (const Value* input : graph_.inputs()) {
      if (!input->is_initializer()) draw_input(*input);
    }
    for (const auto& node : graph_.nodes()) draw_node(*node);
    for (const Value* output : graph_.outputs()) draw_output(*output);
    mark_removed_casts();
  }

 private:
  void draw_input(const Value& input) {
    at_[&input] = push({DrawnNode::Kind::kInput, input.name(), "", drawn_dtype(input.dtype()),
                        to_string(input.type)});
  }

  void draw_output(const Value& output) {
    const int index = push({DrawnNode::Kind::kOutput, output.name(), "",
                            drawn_dtype(output.dtype()), to_string(output.type)});
    connect(output, index);
  }

  void draw_node(const Node& node) {
    DrawnNode drawn;
    drawn.name = display_name(node);
    if (node.is("Constant")) {  // shown where it is read, as initializers are
      decisions_.take(drawn.name);
      return;
    }
    drawn.op_type = node.op_type();
    if (node.result() != nullptr) drawn.type = to_string(node.result()->type);
    drawn.decision = decisions_.take(drawn.name);
    if (drawn.decision < 0 && is_float_cast(node)) {
      drawn.kind = DrawnNode::Kind::kCast;
      drawn.cast = take_cast(node);
    }
    const DType runs_in =
        drawn.decision >= 0 ? report_.records.nodes[static_cast<std::size_t>(drawn.decision)].dtype
                            : first_floating_result(node);
    drawn.dtype = drawn_dtype(runs_in);
    const int index = push(std::move(drawn));
    for (const Value* result : node.results()) {
      if (result != nullptr) at_[result] = index;
    }
    std::unordered_set<const Value*> seen;
    connect_operands(node, index, seen);
  }

  // Operands, and what subgraphs capture from this graph.
  void connect_operands(const Node& node, int index, std::unordered_set<const Value*>& seen) {
    for (const Value* operand : node.operands()) {
      if (operand != nullptr && operand->graph() == &graph_ && seen.insert(operand).second) {
        connect(*operand, index);
      }
    }
    for (const Graph* inner : node.subgraphs()) {
      for (const auto& inner_node : inner->nodes()) connect_operands(*inner_node, index, seen);
    }
  }

  void connect(const Value& value, int to) {
    const auto from = at_.find(&value);
    const bool is_constant =
        value.is_initializer() || (value.producer() != nullptr && value.producer()->is("Constant"));
    if (from == at_.end() && !is_constant) return;
    report_.edges.push_back(
        {from == at_.end() ? -1 : from->second, to, value.name(), to_string(value.type)});
  }

  // The record of a cast: hoisting may have moved it above the value it was made for, and the cast
  // of a graph output bears the output's name, so that one of three names leads to the record.
  int take_cast(const Node& node) {
    const DType to = node.result()->dtype();
    for (const std::string* name : {&node.operand(0)->name(), &node.result()->name()}) {
      if (const int cast = take_cast_of(*name, to); cast >= 0) return cast;
    }
    // "cast/VALUE_bf16" of insert-casts
    constexpr std::string_view kPrefix = "cast/";
    if (node.name.rfind(kPrefix, 0) != 0) return -1;
    const std::size_t suffix = node.name.rfind('_');
    if (suffix == std::string::npos || suffix <= kPrefix.size()) return -1;
    return take_cast_of(node.name.substr(kPrefix.size(), suffix - kPrefix.size()), to);
  }

  int take_cast_of(const std::string& value, DType to) {
    const auto found = casts_of_.find(value);
    if (found == casts_of_.end()) return -1;
    for (auto it = found->second.begin(); it != found->second.end(); ++it) {
      if (report_.records.casts[static_cast<std::size_t>(*it)].to != to) continue;
      const int cast = *it;
      found->second.erase(it);
      return cast;
    }
    return -1;
  }

  void mark_removed_casts() {
    for (const auto& [value, casts] : casts_of_) {
      for (const int cast : casts) {
        report_.records.casts[static_cast<std::size_t>(cast)].removed = true;
      }
    }
  }

  int push(DrawnNode drawn) {
    report_.drawn.push_back(std::move(drawn));
    return static_cast<int>(report_.drawn.size()) - 1;
  }

  const Graph& graph_;
  Report& report_;
  Lookup decisions_;
  std::unordered_map<std::string, std::vector<int>> casts_of_;  // by value, not yet given out
  std::unordered_map<const Value*, int> at_;                    // who makes it
};

}  // namespace

ReportTotals sum_totals(const Records& records) {
  ReportTotals totals;
  for (const NodeDecision& node : records.nodes) {
    if (node.dtype == DType::kNone) continue;
    ++totals.nodes;
    totals.flops += node.flops;
    if (!is_low(node.dtype)) continue;
    ++totals.low_nodes;
    totals.low_flops += node.flops;
  }
  for (const CastDecision& cast : records.casts) {
    if (cast.ahead_of_time || cast.removed) continue;
    ++totals.casts;
    totals.cast_bytes += cast.bytes;
  }
  return totals;
}

Report make_report(const Model& model, const Records& records) {
  Report report;
  report.records = records;
  if (model.graph) Drawer(*model.graph, report).run();
  report.totals = sum_totals(report.records);
  return report;
}

}  // namespace mezzo
