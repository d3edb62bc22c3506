// Reads a report back from JSON, which may come from anywhere.

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "compiler/report/report.h"
#include "compiler/support/json_util.h"
#include "compiler/support/text.h"

namespace mezzo {
namespace {

using nlohmann::json;

StatusOr<DType> dtype_at(const json& object, const char* key) {
  MEZZO_ASSIGN_OR_RETURN(const std::string name, json_string(object, key));
  if (name == dtype_name(DType::kNone)) return DType::kNone;
  const auto dtype = dtype_from_name(name);
  if (dtype) return *dtype;
  return invalid_argument(std::string("key '") + key + "': expected an element type, got '" +
                          printable(name, 40) + "'");
}

StatusOr<Rule> rule_at(const json& object) {
  MEZZO_ASSIGN_OR_RETURN(const std::string name, json_string(object, "rule"));
  for (int i = 0; i < kRuleCount; ++i) {
    if (name == rule_name(static_cast<Rule>(i))) return static_cast<Rule>(i);
  }
  return invalid_argument("key 'rule': expected a rule, got '" + printable(name, 40) + "'");
}

// A finite number of at least 0.
StatusOr<double> amount_at(const json& object, const char* key) {
  MEZZO_ASSIGN_OR_RETURN(const double value, json_number(object, key));
  if (value >= 0 && value <= 1e300) return value;
  return invalid_argument(std::string("key '") + key + "': expected a finite number of at least 0");
}

// An index below `count`, -1 where the key is missing.
StatusOr<int> index_at(const json& object, const char* key, std::size_t count) {
  if (!object.contains(key)) return -1;
  MEZZO_ASSIGN_OR_RETURN(const std::uint64_t index, json_uint(object, key));
  if (index < count) return static_cast<int>(index);
  return invalid_argument(std::string("key '") + key + "': expected an index below " +
                          std::to_string(count) + ", got " + std::to_string(index));
}

StatusOr<std::vector<std::string>> texts_at(const json& object, const char* key) {
  MEZZO_ASSIGN_OR_RETURN(const json* array, json_array(object, key));
  std::vector<std::string> texts;
  for (const json& text : *array) {
    if (!text.is_string()) {
      return invalid_argument(std::string("key '") + key + "': expected strings");
    }
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

// Calls `read(object)` for each element of the array `key`, and says which one is at fault.
template <typename Read>
Status for_each_at(const json& object, const char* key, const Read& read) {
  MEZZO_ASSIGN_OR_RETURN(const json* array, json_array(object, key));
  for (std::size_t i = 0; i < array->size(); ++i) {
    MEZZO_RETURN_IF_ERROR(
        Status(read((*array)[i])).with_context(std::string(key) + "[" + std::to_string(i) + "]"));
  }
  return ok_status();
}

// Reports of versions that did not look into graphs inside nodes have none.
StatusOr<std::string> scope_at(const json& object) {
  return object.contains("scope") ? json_string(object, "scope") : std::string();
}

StatusOr<NodeDecision> read_node(const json& object) {
  NodeDecision node;
  MEZZO_ASSIGN_OR_RETURN(node.node, json_string(object, "name"));
  MEZZO_ASSIGN_OR_RETURN(node.scope, scope_at(object));
  MEZZO_ASSIGN_OR_RETURN(node.op_type, json_string(object, "op"));
  MEZZO_ASSIGN_OR_RETURN(node.domain, json_string(object, "domain"));
  MEZZO_ASSIGN_OR_RETURN(node.dtype, dtype_at(object, "dtype"));
  MEZZO_ASSIGN_OR_RETURN(node.rule, rule_at(object));
  MEZZO_ASSIGN_OR_RETURN(node.cause, json_string(object, "cause"));
  MEZZO_ASSIGN_OR_RETURN(node.flops, amount_at(object, "flops"));
  MEZZO_ASSIGN_OR_RETURN(node.bytes, json_uint(object, "bytes"));
  return node;
}

StatusOr<CastDecision> read_cast(const json& object) {
  CastDecision cast;
  MEZZO_ASSIGN_OR_RETURN(cast.value, json_string(object, "value"));
  MEZZO_ASSIGN_OR_RETURN(cast.scope, scope_at(object));
  MEZZO_ASSIGN_OR_RETURN(cast.producer, json_string(object, "producer"));
  MEZZO_ASSIGN_OR_RETURN(cast.consumers, texts_at(object, "consumers"));
  MEZZO_ASSIGN_OR_RETURN(cast.from, dtype_at(object, "from"));
  MEZZO_ASSIGN_OR_RETURN(cast.to, dtype_at(object, "to"));
  MEZZO_ASSIGN_OR_RETURN(cast.bytes, json_uint(object, "bytes"));
  MEZZO_ASSIGN_OR_RETURN(cast.cause, json_string(object, "cause"));
  MEZZO_ASSIGN_OR_RETURN(cast.ahead_of_time, json_bool(object, "ahead_of_time"));
  MEZZO_ASSIGN_OR_RETURN(cast.removed, json_bool(object, "removed"));
  return cast;
}

StatusOr<DrawnNode> read_drawn(const json& object, const Records& records) {
  static constexpr std::array<std::string_view, 4> kKinds = {"node", "cast", "input", "output"};
  DrawnNode drawn;
  MEZZO_ASSIGN_OR_RETURN(const std::string kind, json_string(object, "kind"));
  std::size_t index = 0;
  while (index < kKinds.size() && kKinds[index] != kind) ++index;
  if (index == kKinds.size()) {
    return invalid_argument("key 'kind': expected node, cast, input or output, got '" +
                            printable(kind, 40) + "'");
  }
  drawn.kind = static_cast<DrawnNode::Kind>(index);
  MEZZO_ASSIGN_OR_RETURN(drawn.name, json_string(object, "name"));
  MEZZO_ASSIGN_OR_RETURN(drawn.op_type, json_string(object, "op"));
  MEZZO_ASSIGN_OR_RETURN(drawn.dtype, json_string(object, "dtype"));
  MEZZO_ASSIGN_OR_RETURN(drawn.type, json_string(object, "type"));
  MEZZO_ASSIGN_OR_RETURN(drawn.decision, index_at(object, "decision", records.nodes.size()));
  MEZZO_ASSIGN_OR_RETURN(drawn.cast, index_at(object, "cast", records.casts.size()));
  return drawn;
}

StatusOr<ReportEdge> read_edge(const json& object, std::size_t node_count) {
  ReportEdge edge;
  MEZZO_ASSIGN_OR_RETURN(edge.from, index_at(object, "from", node_count));
  MEZZO_ASSIGN_OR_RETURN(edge.to, index_at(object, "to", node_count));
  if (edge.to < 0) return invalid_argument("key 'to' is missing");
  MEZZO_ASSIGN_OR_RETURN(edge.value, json_string(object, "value"));
  MEZZO_ASSIGN_OR_RETURN(edge.type, json_string(object, "type"));
  return edge;
}

Status read_graph(const json& object, Report& report) {
  MEZZO_RETURN_IF_ERROR(for_each_at(object, "nodes", [&](const json& element) -> Status {
    MEZZO_ASSIGN_OR_RETURN(DrawnNode drawn, read_drawn(element, report.records));
    report.drawn.push_back(std::move(drawn));
    return ok_status();
  }));
  return for_each_at(object, "edges", [&](const json& element) -> Status {
    MEZZO_ASSIGN_OR_RETURN(ReportEdge edge, read_edge(element, report.drawn.size()));
    report.edges.push_back(std::move(edge));
    return ok_status();
  });
}

Status read_decisions(const json& object, Records& records) {
  MEZZO_RETURN_IF_ERROR(for_each_at(object, "policy", [&](const json& element) -> Status {
    MEZZO_ASSIGN_OR_RETURN(std::string name, json_string(element, "name"));
    MEZZO_ASSIGN_OR_RETURN(std::string value, json_string(element, "value"));
    records.policy.emplace_back(std::move(name), std::move(value));
    return ok_status();
  }));
  MEZZO_RETURN_IF_ERROR(for_each_at(object, "nodes", [&](const json& element) -> Status {
    MEZZO_ASSIGN_OR_RETURN(NodeDecision node, read_node(element));
    records.nodes.push_back(std::move(node));
    return ok_status();
  }));
  return for_each_at(object, "casts", [&](const json& element) -> Status {
    MEZZO_ASSIGN_OR_RETURN(CastDecision cast, read_cast(element));
    records.casts.push_back(std::move(cast));
    return ok_status();
  });
}

Status read_numbers(const json& object, Records& records) {
  MEZZO_ASSIGN_OR_RETURN(const json* cost, json_object(object, "cost"));
  MEZZO_ASSIGN_OR_RETURN(records.cost.method, json_string(*cost, "method"));
  MEZZO_ASSIGN_OR_RETURN(records.cost.objective_us, amount_at(*cost, "objective_us"));
  MEZZO_ASSIGN_OR_RETURN(records.cost.alternative_us, amount_at(*cost, "alternative_us"));
  MEZZO_ASSIGN_OR_RETURN(records.cost.all_fp32_us, amount_at(*cost, "all_fp32_us"));
  MEZZO_ASSIGN_OR_RETURN(const json* bytes, json_object(object, "bytes"));
  MEZZO_ASSIGN_OR_RETURN(records.weight_bytes_before, json_uint(*bytes, "weights_before"));
  MEZZO_ASSIGN_OR_RETURN(records.weight_bytes_after, json_uint(*bytes, "weights_after"));
  MEZZO_ASSIGN_OR_RETURN(records.activation_bytes_before, json_uint(*bytes, "activations_before"));
  MEZZO_ASSIGN_OR_RETURN(records.activation_bytes_after, json_uint(*bytes, "activations_after"));
  MEZZO_ASSIGN_OR_RETURN(records.planned_peak_bytes, json_uint(*bytes, "planned_peak"));
  MEZZO_ASSIGN_OR_RETURN(records.live_bytes, json_uint(*bytes, "live"));
  return ok_status();
}

StatusOr<PolicyFigures> read_figures(const json& object) {
  PolicyFigures figures;
  MEZZO_ASSIGN_OR_RETURN(figures.policy, json_string(object, "policy"));
  MEZZO_ASSIGN_OR_RETURN(figures.chosen, json_bool(object, "chosen"));
  MEZZO_ASSIGN_OR_RETURN(figures.flops, amount_at(object, "flops"));
  MEZZO_ASSIGN_OR_RETURN(figures.low_flops, amount_at(object, "low_flops"));
  MEZZO_ASSIGN_OR_RETURN(figures.casts, json_uint(object, "casts"));
  MEZZO_ASSIGN_OR_RETURN(figures.cast_bytes, json_uint(object, "cast_bytes"));
  MEZZO_ASSIGN_OR_RETURN(figures.weight_bytes, json_uint(object, "weight_bytes"));
  MEZZO_ASSIGN_OR_RETURN(figures.activation_bytes, json_uint(object, "activation_bytes"));
  MEZZO_ASSIGN_OR_RETURN(figures.predicted_us, amount_at(object, "predicted_us"));
  return figures;
}

// Any finite number.
StatusOr<double> finite_at(const json& object, const char* key) {
  MEZZO_ASSIGN_OR_RETURN(const double value, json_number(object, key));
  if (value >= -1e300 && value <= 1e300) return value;
  return invalid_argument(std::string("key '") + key + "': expected a finite number");
}

StatusOr<MeasuredTensor> read_measured(const json& object) {
  MeasuredTensor tensor;
  MEZZO_ASSIGN_OR_RETURN(tensor.tensor, json_string(object, "tensor"));
  MEZZO_ASSIGN_OR_RETURN(tensor.scope, json_string(object, "scope"));
  MEZZO_ASSIGN_OR_RETURN(tensor.lowest, finite_at(object, "lowest"));
  MEZZO_ASSIGN_OR_RETURN(tensor.highest, finite_at(object, "highest"));
  MEZZO_ASSIGN_OR_RETURN(tensor.smallest_nonzero, amount_at(object, "smallest_nonzero"));
  MEZZO_ASSIGN_OR_RETURN(tensor.infinities, json_uint(object, "infinities"));
  MEZZO_ASSIGN_OR_RETURN(tensor.nans, json_uint(object, "nans"));
  MEZZO_ASSIGN_OR_RETURN(tensor.note, json_string(object, "note"));
  return tensor;
}

StatusOr<CalibrationChange> read_change(const json& object) {
  CalibrationChange change;
  MEZZO_ASSIGN_OR_RETURN(change.node, json_string(object, "node"));
  MEZZO_ASSIGN_OR_RETURN(change.scope, json_string(object, "scope"));
  MEZZO_ASSIGN_OR_RETURN(change.op_type, json_string(object, "op"));
  MEZZO_ASSIGN_OR_RETURN(change.before, dtype_at(object, "before"));
  MEZZO_ASSIGN_OR_RETURN(change.after, dtype_at(object, "after"));
  return change;
}

StatusOr<CalibrationRecord> read_calibration(const json& object) {
  CalibrationRecord found;
  MEZZO_ASSIGN_OR_RETURN(found.sources, texts_at(object, "sources"));
  MEZZO_ASSIGN_OR_RETURN(found.samples, json_uint(object, "samples"));
  MEZZO_ASSIGN_OR_RETURN(found.tensors, json_uint(object, "tensors"));
  MEZZO_ASSIGN_OR_RETURN(found.avoided_by_bf16, json_uint(object, "avoided_by_bf16"));
  MEZZO_RETURN_IF_ERROR(for_each_at(object, "near_limit", [&](const json& element) -> Status {
    MEZZO_ASSIGN_OR_RETURN(MeasuredTensor tensor, read_measured(element));
    found.near_limit.push_back(std::move(tensor));
    return ok_status();
  }));
  MEZZO_RETURN_IF_ERROR(for_each_at(object, "changes", [&](const json& element) -> Status {
    MEZZO_ASSIGN_OR_RETURN(CalibrationChange change, read_change(element));
    found.changes.push_back(std::move(change));
    return ok_status();
  }));
  if (!object.contains("output_error")) return found;
  found.output_error = CalibrationRecord::kInfiniteError;  // written as null
  if (!object["output_error"].is_null()) {
    MEZZO_ASSIGN_OR_RETURN(found.output_error, amount_at(object, "output_error"));
  }
  MEZZO_ASSIGN_OR_RETURN(found.worst_output, json_string(object, "worst_output"));
  MEZZO_ASSIGN_OR_RETURN(found.checked_samples, json_uint(object, "checked_samples"));
  return found;
}

StatusOr<Report> read_object(const json& object) {
  if (!object.is_object() || !object.contains("format") || object["format"] != "mezzo-report") {
    return invalid_argument("not a report: expected JSON that `mezzo convert --json` wrote");
  }
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t version, json_int(object, "format_version"));
  if (version != 1) {
    return unimplemented("report of format version " + std::to_string(version) +
                         "; this program reads version 1");
  }
  Report report;
  Records& records = report.records;
  MEZZO_ASSIGN_OR_RETURN(records.model, json_string(object, "model"));
  MEZZO_ASSIGN_OR_RETURN(records.target, json_string(object, "target"));
  MEZZO_ASSIGN_OR_RETURN(records.precision, json_string(object, "precision"));
  MEZZO_ASSIGN_OR_RETURN(records.tool_version, json_string(object, "tool_version"));
  MEZZO_ASSIGN_OR_RETURN(records.warnings, texts_at(object, "warnings"));
  MEZZO_ASSIGN_OR_RETURN(records.pads, texts_at(object, "pads"));
  MEZZO_RETURN_IF_ERROR(read_numbers(object, records));
  MEZZO_RETURN_IF_ERROR(read_decisions(object, records));
  if (object.contains("comparison")) {
    MEZZO_RETURN_IF_ERROR(for_each_at(object, "comparison", [&](const json& element) -> Status {
      MEZZO_ASSIGN_OR_RETURN(PolicyFigures figures, read_figures(element));
      records.comparison.push_back(std::move(figures));
      return ok_status();
    }));
  }
  if (object.contains("calibration")) {
    MEZZO_ASSIGN_OR_RETURN(const json* found, json_object(object, "calibration"));
    auto calibration = read_calibration(*found);
    if (!calibration.ok()) return calibration.status().with_context("calibration");
    records.calibration = *std::move(calibration);
  }
  MEZZO_ASSIGN_OR_RETURN(const json* graph, json_object(object, "graph"));
  MEZZO_RETURN_IF_ERROR(read_graph(*graph, report).with_context("graph"));
  report.totals = sum_totals(records);
  return report;
}

}  // namespace

StatusOr<Report> read_report(std::string_view json_text, std::string_view where) {
  MEZZO_ASSIGN_OR_RETURN(const json object, parse_json(json_text, where));
  auto report = read_object(object);
  if (!report.ok()) return report.status().with_context(where);
  return report;
}

}  // namespace mezzo
