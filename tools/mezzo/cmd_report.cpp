// mezzo report: where every cast goes and why, without writing a model.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/report/report.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/json_util.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/text.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/compare_presets.h"
#include "tools/mezzo/convert_model.h"
#include "tools/mezzo/file_kind.h"
#include "tools/mezzo/inspect.h"
#include "tools/mezzo/options.h"
#include "tools/mezzo/output_places.h"

namespace mezzo::cli {
namespace {

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

struct ReportCommand {
  std::string file, output, json;
  PolicyOptions policy;
  DumpOptions dump;
  bool text = false, compare_all = false;

  Status run() const {
    MEZZO_RETURN_IF_ERROR(
        expect_different({{"-o", output}, {"--json", json}}, {{"the input", file}}));
    MEZZO_ASSIGN_OR_RETURN(const FileKind kind, file_kind(file));
    if (kind == FileKind::kPlan) return report_plan();
    if (kind != FileKind::kModel && kind != FileKind::kReport) {
      return invalid_argument(printable(file) +
                              ": expected a model, a plan, or JSON that `mezzo convert --json` "
                              "wrote. Hint: `mezzo inspect` shows what a file holds");
    }
    MEZZO_ASSIGN_OR_RETURN(const Report report, kind == FileKind::kModel ? decide() : read());
    if (!output.empty()) MEZZO_RETURN_IF_ERROR(write_file(output, report_html(report)));
    if (!json.empty()) MEZZO_RETURN_IF_ERROR(write_file(json, report_json(report)));
    if (text || (output.empty() && json.empty()))
      print(report_text(report, terminal_width()) + "\n");
    print(report_totals(report) + "\n");
    if (!output.empty()) print("wrote " + output + "\n");
    if (!json.empty()) print("wrote " + json + "\n");
    return ok_status();
  }

 private:
  StatusOr<Report> decide() const {
    MEZZO_ASSIGN_OR_RETURN(const passes::PrecisionPolicy chosen, policy.to_policy());
    MEZZO_ASSIGN_OR_RETURN(const Converted converted,
                           convert_model(file, chosen, padding_of(chosen), dump.to_runner()));
    MEZZO_RETURN_IF_ERROR(
        expect_different({{"-o", output}, {"--json", json}}, sources(file, converted.data_files)));
    // Which casts were removed again only the converted graph tells.
    Report report = make_report(*converted.model, converted.records);
    MEZZO_RETURN_IF_ERROR(compare_presets(
        file, policy, chosen, compare_all ? Compared::kAllPresets : Compared::kDefaultAndInference,
        report));
    return report;
  }

  StatusOr<Report> read() const {
    MEZZO_ASSIGN_OR_RETURN(const auto mapped, MappedFile::open(file));
    const auto bytes = mapped->bytes();
    return read_report({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
  }

  // A plan no longer holds the reasons, only what came of them.
  Status report_plan() const {
    if (!output.empty()) {
      return invalid_argument(
          printable(file) +
          ": a plan holds no decisions to draw. Hint: give -o the model, or the "
          "JSON of the conversion");
    }
    InspectOptions options;
    options.width = terminal_width();
    MEZZO_ASSIGN_OR_RETURN(const Inspection found, inspect_plan(file, options));
    if (!json.empty()) MEZZO_RETURN_IF_ERROR(write_file(json, json_text(*found.json, 1) + "\n"));
    if (text || json.empty()) print(found.text);
    return ok_status();
  }
};

}  // namespace

Work add_report(CLI::App& app) {
  auto command = std::make_shared<ReportCommand>();
  app.add_option("file", command->file, "Model, report JSON or plan")
      ->required()
      ->type_name("FILE");
  app.add_option("-o,--output", command->output, "Write the report as a web page")
      ->type_name("HTML");
  app.add_option("--json", command->json, "Write the report as JSON")->type_name("JSON");
  app.add_flag("--text", command->text, "Print the tables (the default without -o and --json)");
  command->policy.add_to(app, /*takes_fp32=*/false, /*has_io=*/true);
  app.add_flag("--compare-presets", command->compare_all,
               "Show what every preset would give, not only the default one and inference")
      ->group("Precision");
  command->dump.add_to(app);
  return [command] { return command->run(); };
}

}  // namespace mezzo::cli
