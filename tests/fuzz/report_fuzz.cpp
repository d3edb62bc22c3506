// Any bytes as a report in JSON: what is read is written as page, text and JSON, and reads back the
// same.
#include <string>

#include "compiler/report/report.h"
#include "fuzz_target.h"

namespace mezzo::fuzz {
namespace {

void run(Bytes bytes) {
  const auto report = read_report(as_text(bytes));
  if (!accepted(report.status(), "read_report")) return;
  const std::string json = report_json(*report);
  const auto again = read_report(json);
  demand_ok(again.status(), "a report that was written is read");
  demand(report_json(*again) == json, "a report is the same after a round trip");
  (void)report_text(*report);
  (void)report_text(*report, 40);
  (void)report_totals(*report);
  (void)report_html(*report);
}

}  // namespace

const Target report_target = {"report", run, nullptr};

}  // namespace mezzo::fuzz
