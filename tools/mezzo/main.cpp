// The command line. Exit status: 0 fine, 1 the input's fault (or ours: "internal error"), 2 usage.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>
#include <utility>
#include <vector>

#include "compiler/support/text.h"
#include "tools/mezzo/command.h"

namespace mezzo::cli {
namespace {

struct Command {
  const char* name;
  const char* summary;
  const char* example;
  Work (*add)(CLI::App&);
};

constexpr Command kCommands[] = {
    {"convert", "rewrite an ONNX model to mixed precision", "mezzo convert model.onnx -o mixed.onnx --report report.html", add_convert},
    {"train", "train an ONNX model in mixed precision",
     "mezzo train model.onnx --data train.npz --batch-size 32 --epochs 10 --precision bf16 --out run", add_train},
    {"compile", "make a plan for the runtime", "mezzo compile model.onnx -o model.plan --train --batch-size 32", add_compile},
    {"run", "execute a model or plan", "mezzo run model.onnx --input x.npz --output y.npz", add_run},
    {"inspect", "print a model, plan or checkpoint readably", "mezzo inspect model.plan", add_inspect},
    {"report", "show where every cast goes and why", "mezzo report model.onnx -o report.html", add_report},
    {"opt", "run named passes on a model or its text form", "mezzo opt graph.onnxtxt --passes=infer-shapes,fold-casts", add_opt},
};

// CLI11 names an unknown option, but not what was meant.
std::string suggestion(const CLI::App& app, const std::vector<std::string>& extras) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const std::string& extra : extras) {
    if (extra.rfind("--", 0) == 0) return did_you_mean(extra.substr(0, extra.find('=')), names);
  }
  return {};
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* where = &app;
  for (const CLI::App* sub : app.get_subcommands()) where = sub;
  std::fprintf(stderr, "error: %s%s\nHint: `%s --help` lists the options\n", error.what(),
               suggestion(*where, where->remaining()).c_str(),
               (where == &app ? "mezzo" : "mezzo " + where->get_name()).c_str());
  return 2;
}

int report_status(const Status& status) {
  if (status.ok()) return 0;
  const char* kind = status.code() == StatusCode::kInternal ? "internal error" : "error";
  std::fprintf(stderr, "%s: %s\n", kind, status.message().c_str());
  return 1;
}

int run(int argc, char** argv) {
  CLI::App app{"mezzo rewrites ONNX models to mixed precision and trains them without Python."};
  app.set_version_flag("--version", MEZZO_VERSION);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Work>> commands;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer(std::string("Example:\n  ") + command.example);
    commands.emplace_back(sub, command.add(*sub));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  }
  for (const auto& [sub, work] : commands) {
    if (*sub) return report_status(work());
  }
  return 2;
}

}  // namespace
}  // namespace mezzo::cli

int main(int argc, char** argv) {
  try {
    return mezzo::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error: out of memory\n");
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "internal error: %s\n", exception.what());
  }
  return 1;
}
