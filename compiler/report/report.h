// The report: totals, a graph coloured by precision, and the rule and cause of every node and cast.
// It prints records (records.h) and decides nothing. README.md describes the JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/report/records.h"
#include "compiler/support/status.h"

namespace mezzo {

// An edge of the picture: a value and one reader of it.
struct ReportEdge {
  int from = -1;  // index into Report::drawn; -1: an initializer or Constant, which are not drawn
  int to = -1;    // index into Report::drawn
  std::string value, type;

  bool operator==(const ReportEdge&) const = default;
};

struct ReportTotals {
  double flops = 0, low_flops = 0;
  // Nodes that compute in floating point, and those of them that run in low precision.
  std::uint64_t nodes = 0, low_nodes = 0;
  // Casts at run time; weights stored low ahead of time and removed casts do not count.
  std::uint64_t casts = 0, cast_bytes = 0;
  double low_share() const { return flops > 0 ? low_flops / flops : 0; }

  bool operator==(const ReportTotals&) const = default;
};

struct DrawnNode {
  enum class Kind : std::uint8_t { kNode, kCast, kInput, kOutput };
  Kind kind = Kind::kNode;
  std::string name;     // as in the records; of the value for inputs and outputs
  std::string op_type;  // "" for inputs and outputs
  std::string dtype;    // what it runs in: "float", "float16", "bfloat16"; "" if not floating
  std::string type;     // of the first result, or of the input or output: "float[2,3]"
  int decision = -1;    // index into records.nodes; -1: the node came after the decisions
  int cast = -1;        // index into records.casts; -1: no recorded cast

  bool operator==(const DrawnNode&) const = default;
};

struct Report {
  Records records;
  ReportTotals totals;
  // The converted main graph: inputs, nodes in order (casts included, constants not), outputs. A
  // node with subgraphs is drawn as one.
  std::vector<DrawnNode> drawn;
  std::vector<ReportEdge> edges;

  bool operator==(const Report&) const = default;
};

// Sums over the records. Decisions without floating point and casts that cost nothing at run time
// are left out.
ReportTotals sum_totals(const Records& records);

// REQUIRES: `model` is the graph the records speak of, after conversion.
Report make_report(const Model& model, const Records& records);

// One self-contained page: no network, no fonts or scripts from elsewhere.
std::string report_html(const Report& report);

std::string report_json(const Report& report);
// The report that report_json() wrote; totals are summed again. `where` (a file name) starts every
// error. InvalidArgument: not a report, or damaged. Unimplemented: of a later format version.
StatusOr<Report> read_report(std::string_view json, std::string_view where = "report");

// A table with a line per node and per cast, counts per rule at the end; for terminals. Lines are
// cut to `width` columns; 0: never.
std::string report_text(const Report& report, int width = 0);
// A few lines: share of FLOPs in low precision, casts and their bytes, bytes before and after,
// predicted time.
std::string report_totals(const Report& report);

}  // namespace mezzo
