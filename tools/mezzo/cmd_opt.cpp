// mezzo opt: named passes on a model or its text form; the developers' door.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "compiler/support/atomic_file.h"
#include "passes/pipeline.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/opt_options.h"

namespace mezzo::cli {
namespace {

struct OptCommand {
  std::string model, output = "-";
  OptOptions options;
  bool list = false, stats = false, timing = false;

  Status run() const {
    if (list) return print_passes();
    if (model.empty())
      return invalid_argument("no model given. Hint: `mezzo opt graph.onnxtxt --passes=a,b`");
    MEZZO_ASSIGN_OR_RETURN(const auto chosen, passes::parse_passes(options.passes));
    MEZZO_ASSIGN_OR_RETURN(const auto graph, load_model(model));
    MEZZO_ASSIGN_OR_RETURN(passes::PassContext ctx, options.to_context());
    passes::RunnerOptions runner = options.to_runner();
    runner.print = [](const std::string& text) { std::fprintf(stderr, "%s", text.c_str()); };
    std::vector<passes::PassRun> runs;
    MEZZO_RETURN_IF_ERROR(
        passes::run_passes(*graph, ctx, chosen, runner, &runs).with_context(model));
    if (stats) {
      for (const auto& [name, count] : ctx.stats.counts())
        std::fprintf(stderr, "%8lld  %s\n", static_cast<long long>(count), name.c_str());
    }
    if (timing) {
      for (const passes::PassRun& pass : runs)
        std::fprintf(stderr, "%9.2f ms  %s\n", pass.ms, std::string(pass.name).c_str());
    }
    return write(*graph);
  }

  Status write(Model& graph) const {
    if (output.ends_with(".onnx")) return export_model(graph, output);
    MEZZO_ASSIGN_OR_RETURN(const std::string text, options.print(graph));
    if (output != "-") return write_file(output, text);
    std::printf("%s", text.c_str());
    return ok_status();
  }

  static Status print_passes() {
    for (const passes::PassInfo& pass : passes::all_passes()) {
      std::printf("%-23s %s\n", std::string(pass.name).c_str(), std::string(pass.summary).c_str());
    }
    return ok_status();
  }
};

}  // namespace

Work add_opt(CLI::App& app) {
  auto command = std::make_shared<OptCommand>();
  app.add_option("model", command->model, ".onnx or .onnxtxt")->type_name("MODEL");
  app.add_option("-o,--output", command->output, ".onnx, or text; - prints it")
      ->capture_default_str();
  app.add_flag("--list-passes", command->list, "Print all passes");
  app.add_flag("--stats", command->stats, "Print what the passes counted");
  app.add_flag("--timing", command->timing, "Print what every pass took");
  command->options.add_to(app);
  return [command] { return command->run(); };
}

}  // namespace mezzo::cli
