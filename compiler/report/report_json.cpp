// Writes the report as JSON; the schema is described in README.md.

#include "compiler/report/report_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/support/json_util.h"

namespace mezzo {
namespace {

using nlohmann::json;

// Predictions are sums of finite numbers; one that overflowed is as good as unknown.
double finite(double value) { return std::isfinite(value) ? value : 0; }

json node_json(const NodeDecision& node) {
  return {{"name", node.node},
          {"op", node.op_type},
          {"scope", node.scope},
          {"domain", node.domain},
          {"dtype", std::string(dtype_name(node.dtype))},
          {"rule", std::string(rule_name(node.rule))},
          {"cause", node.cause},
          {"flops", finite(node.flops)},
          {"bytes", node.bytes}};
}

json cast_json(const CastDecision& cast) {
  return {{"value", cast.value},
          {"scope", cast.scope},
          {"producer", cast.producer},
          {"consumers", cast.consumers},
          {"from", std::string(dtype_name(cast.from))},
          {"to", std::string(dtype_name(cast.to))},
          {"bytes", cast.bytes},
          {"cause", cast.cause},
          {"ahead_of_time", cast.ahead_of_time},
          {"removed", cast.removed}};
}

json drawn_json(const DrawnNode& drawn) {
  static constexpr const char* kKinds[] = {"node", "cast", "input", "output"};
  json object = {{"kind", kKinds[static_cast<std::size_t>(drawn.kind)]},
                 {"name", drawn.name},
                 {"op", drawn.op_type},
                 {"dtype", drawn.dtype},
                 {"type", drawn.type}};
  if (drawn.decision >= 0) object["decision"] = drawn.decision;
  if (drawn.cast >= 0) object["cast"] = drawn.cast;
  return object;
}

json graph_json(const Report& report) {
  json nodes = json::array(), edges = json::array();
  for (const DrawnNode& drawn : report.drawn) nodes.push_back(drawn_json(drawn));
  for (const ReportEdge& edge : report.edges) {
    json object = {{"to", edge.to}, {"value", edge.value}, {"type", edge.type}};
    if (edge.from >= 0) object["from"] = edge.from;
    edges.push_back(std::move(object));
  }
  return {{"nodes", std::move(nodes)}, {"edges", std::move(edges)}};
}

json totals_json(const ReportTotals& totals) {
  return {{"flops", finite(totals.flops)}, {"low_flops", finite(totals.low_flops)},
          {"nodes", totals.nodes},         {"low_nodes", totals.low_nodes},
          {"casts", totals.casts},         {"cast_bytes", totals.cast_bytes}};
}

json cost_json(const AssignmentCost& cost) {
  return {{"method", cost.method},
          {"objective_us", finite(cost.objective_us)},
          {"alternative_us", finite(cost.alternative_us)},
          {"all_fp32_us", finite(cost.all_fp32_us)}};
}

json figures_json(const PolicyFigures& figures) {
  return {{"policy", figures.policy},
          {"chosen", figures.chosen},
          {"flops", finite(figures.flops)},
          {"low_flops", finite(figures.low_flops)},
          {"casts", figures.casts},
          {"cast_bytes", figures.cast_bytes},
          {"weight_bytes", figures.weight_bytes},
          {"activation_bytes", figures.activation_bytes},
          {"predicted_us", finite(figures.predicted_us)}};
}

json calibration_json(const CalibrationRecord& found) {
  json tensors = json::array(), changes = json::array();
  for (const MeasuredTensor& tensor : found.near_limit) {
    tensors.push_back({{"tensor", tensor.tensor},
                       {"scope", tensor.scope},
                       {"lowest", finite(tensor.lowest)},
                       {"highest", finite(tensor.highest)},
                       {"smallest_nonzero", finite(tensor.smallest_nonzero)},
                       {"infinities", tensor.infinities},
                       {"nans", tensor.nans},
                       {"note", tensor.note}});
  }
  for (const CalibrationChange& change : found.changes) {
    changes.push_back({{"node", change.node},
                       {"scope", change.scope},
                       {"op", change.op_type},
                       {"before", std::string(dtype_name(change.before))},
                       {"after", std::string(dtype_name(change.after))}});
  }
  json object = {{"sources", found.sources},      {"samples", found.samples},
                 {"tensors", found.tensors},      {"near_limit", std::move(tensors)},
                 {"changes", std::move(changes)}, {"avoided_by_bf16", found.avoided_by_bf16}};
  if (found.output_error >= 0) {
    object["output_error"] = found.output_error >= CalibrationRecord::kInfiniteError
                                 ? json(nullptr)
                                 : json(found.output_error);
    object["worst_output"] = found.worst_output;
    object["checked_samples"] = found.checked_samples;
  }
  return object;
}

json bytes_json(const Records& records) {
  return {{"weights_before", records.weight_bytes_before},
          {"weights_after", records.weight_bytes_after},
          {"activations_before", records.activation_bytes_before},
          {"activations_after", records.activation_bytes_after},
          {"planned_peak", records.planned_peak_bytes},
          {"live", records.live_bytes}};
}

}  // namespace

json report_to_json(const Report& report) {
  const Records& records = report.records;
  json policy = json::array(), nodes = json::array(), casts = json::array(),
       comparison = json::array();
  for (const PolicyFigures& figures : records.comparison)
    comparison.push_back(figures_json(figures));
  for (const auto& [name, value] : records.policy) {
    policy.push_back({{"name", name}, {"value", value}});
  }
  for (const NodeDecision& node : records.nodes) nodes.push_back(node_json(node));
  for (const CastDecision& cast : records.casts) casts.push_back(cast_json(cast));
  json object = {{"format", "mezzo-report"},        {"format_version", 1},
                 {"model", records.model},          {"target", records.target},
                 {"precision", records.precision},  {"tool_version", records.tool_version},
                 {"policy", std::move(policy)},     {"totals", totals_json(report.totals)},
                 {"cost", cost_json(records.cost)}, {"bytes", bytes_json(records)},
                 {"warnings", records.warnings},    {"pads", records.pads},
                 {"nodes", std::move(nodes)},       {"casts", std::move(casts)},
                 {"graph", graph_json(report)},     {"comparison", std::move(comparison)}};
  if (records.calibration) object["calibration"] = calibration_json(*records.calibration);
  return object;
}

std::string report_json(const Report& report) {
  return json_text(report_to_json(report), 1) + "\n";
}

}  // namespace mezzo
