// mezzo inspect: what a file holds.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/report/report.h"
#include "compiler/report/report_json.h"
#include "compiler/support/json_util.h"
#include "compiler/support/mapped_file.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/file_kind.h"
#include "tools/mezzo/inspect.h"

namespace mezzo::cli {
namespace {

struct InspectCommand {
  std::string file;
  InspectOptions options;
  bool json = false;

  StatusOr<Inspection> inspect() const {
    MEZZO_ASSIGN_OR_RETURN(const FileKind kind, file_kind(file));
    InspectOptions chosen = options;
    chosen.width = terminal_width();
    switch (kind) {
      case FileKind::kPlan: return inspect_plan(file, chosen);
      case FileKind::kReport: return inspect_report(file, chosen);
      case FileKind::kCheckpoint: return inspect_checkpoint(file, chosen);
      case FileKind::kSafetensors: return inspect_safetensors(file, chosen);
      case FileKind::kOrtCheckpoint: return inspect_ort_checkpoint(file, chosen);
      case FileKind::kNpz: return inspect_npz(file, chosen);
      case FileKind::kModel: break;
    }
    return inspect_model(file, chosen);
  }

  Status run() const {
    MEZZO_ASSIGN_OR_RETURN(const Inspection found, inspect());
    const std::string text = json ? json_text(*found.json, 1) + "\n" : found.text;
    std::fwrite(text.data(), 1, text.size(), stdout);
    return ok_status();
  }
};

}  // namespace

StatusOr<Inspection> inspect_report(const std::string& path, const InspectOptions& options) {
  MEZZO_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  MEZZO_ASSIGN_OR_RETURN(
      const Report report,
      read_report({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path));
  return Inspection{report_text(report, options.width) + "\n" + report_totals(report) + "\n",
                    std::make_shared<const nlohmann::json>(report_to_json(report))};
}

Work add_inspect(CLI::App& app) {
  auto command = std::make_shared<InspectCommand>();
  app.add_option("file", command->file,
                 "Model, plan, report, checkpoint (a folder, or ONNX Runtime's file), safetensors "
                 "or npz")
      ->required()
      ->type_name("FILE");
  app.add_option("--loss-output", command->options.loss_output,
                 "Of a model: the output to minimise")
      ->type_name("NAME");
  app.add_flag("--json", command->json, "Print JSON for machines");
  return [command] { return command->run(); };
}

}  // namespace mezzo::cli
