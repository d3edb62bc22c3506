// The command line. Exit status: 0 fine, 1 the input's fault (or ours: "internal error"), 2 usage.
// An error is one line on standard error.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/mapping_guard.h"
#include "compiler/support/text.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/config_file.h"
#include "tools/mezzo/option_checks.h"

namespace mezzo::cli {
namespace {

struct Command {
  const char* name;
  const char* summary;
  const char* examples;
  Work (*add)(CLI::App&);
  bool computes = false;  // runs models, on several threads if it may
};

constexpr Command kCommands[] = {
    {"convert", "Rewrite an ONNX model to mixed precision.",
     "  mezzo convert model.onnx -o mixed.onnx --precision fp16 --report report.html\n"
     "  mezzo convert model.onnx -o mixed.onnx --pin '^/aspp/' --deny-op Softplus\n"
     "  mezzo convert model.onnx -o mixed.onnx --preset inference\n"
     "  mezzo convert model.onnx -o mixed.onnx --precision fp16 --calibrate samples.npz\n"
     "  mezzo convert model.onnx -o trained.onnx --fp32 --weights run/checkpoint\n"
     "  mezzo convert --preset torch-amp --print-policy > policy.json\n",
     add_convert},
    {"train", "Train an ONNX model, with or without a loss, or ONNX Runtime's training artifacts.",
     "  mezzo train model.onnx --data train.npz --batch-size 32 --epochs 10 --precision bf16 --out "
     "run\n"
     "  mezzo train model.onnx --data train.npz --batch-size 32 --steps 1000 --precision fp16 \\\n"
     "      --optimizer adamw --lr 3e-4 --schedule warmup-cosine --warmup-steps 100 --clip-norm 1\n"
     "  mezzo train model.onnx --data train.npz --batch-size 32 --optimizer adamw --weight-decay "
     "0.1 "
     "\\\n"
     "      --no-decay-norms-biases --group '^stem:frozen' --group '^head:lr-scale=10' --ema-decay "
     "0.999\n"
     "  mezzo train scores.onnx --data train.npz --batch-size 32 --loss cross-entropy "
     "--loss-target y\n"
     "  mezzo train artifacts/ --data train.npz --batch-size 32 --lr 1e-3 --out run\n"
     "  mezzo train model.onnx --config run.json --resume run/checkpoint\n"
     "  mezzo train model.onnx --data train.npz --batch-size 32 --device cuda --precision bf16\n"
     "  mezzo train --list-ops --json\n",
     add_train, /*computes=*/true},
    {"compile", "Make a plan for the runtime from an ONNX model.",
     "  mezzo compile model.onnx -o model.plan --precision bf16\n"
     "  mezzo compile model.onnx -o train.plan --train --batch-size 32 --explain\n",
     add_compile},
    {"run", "Execute a model or a plan on given inputs.",
     "  mezzo run model.onnx --input x.npz --output y.npz\n"
     "  mezzo run model.plan --input x.npz --output y.npz --threads 2\n"
     "  mezzo run mixed.onnx --input x.npz --trace nan\n",
     add_run, /*computes=*/true},
    {"inspect", "Print what a model, plan, checkpoint or archive of arrays holds.",
     "  mezzo inspect model.onnx\n"
     "  mezzo inspect run/checkpoint --json\n",
     add_inspect},
    {"report", "Show where every cast goes and why, without writing a model.",
     "  mezzo report model.onnx -o report.html\n"
     "  mezzo report model.onnx --precision bf16 --text\n"
     "  mezzo report model.onnx --compare-presets\n",
     add_report},
    {"bench", "Time a model in FP32 and in mixed precision, side by side.",
     "  mezzo bench model.onnx --input x.npz\n"
     "  mezzo bench model.onnx --dim batch=8 --precision bf16 --threads 2 --profile\n",
     add_bench, /*computes=*/true},
    {"compare",
     "Say where a model in mixed precision departs from its FP32 form, and which nodes cause it.",
     "  mezzo compare model.onnx mixed.onnx --input x.npz\n"
     "  mezzo compare model.onnx mixed.onnx --input x.npz --fix policy.json\n"
     "  mezzo convert model.onnx -o fixed.onnx --policy policy.json\n",
     add_compare, /*computes=*/true},
    {"devices", "List where models can run on this machine.",
     "  mezzo devices\n"
     "  mezzo devices --json\n",
     add_devices},
    {"opt", "Run named passes on a model or its text form: the developers' door.",
     "  mezzo opt --list-passes\n"
     "  mezzo opt graph.onnxtxt --passes=infer-shapes,fold-casts\n",
     add_opt},
};

std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string sentence(const std::string& text) {
  return text.ends_with('.') || text.ends_with('?') ? text : text + ".";
}

int usage_error(const std::string& message, const std::string& command) {
  const bool has_hint = message.find(" Hint: ") != std::string::npos;
  const std::string hint =
      has_hint ? "" : " Hint: `" + command + " --help` shows what can be given";
  std::fprintf(stderr, "error: %s%s\n", one_line(message).c_str(), hint.c_str());
  return 2;
}

std::string unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  return "unknown command '" + printable(name) + "': expected one of " + join(names, ", ") + "." +
         did_you_mean(name, names);
}

// Of arguments that nothing took, options count first: a value may only be left over because its
// option was misspelt.
std::string unexpected(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument.size() < 2 || argument[0] != '-') continue;
    const std::string name = argument.substr(0, argument.find('='));
    return "unknown option '" + printable(name) + "'." + did_you_mean(name, long_names(app));
  }
  return "unexpected argument '" + printable(arguments.front()) + "'.";
}

// CLI11's own words, in our form.
std::string describe(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> left = app.remaining();
  if (!left.empty()) return unexpected(app, left);
  std::string text = error.what();
  const auto ends_with = [&](const std::string& end) {
    return text.size() > end.size() && text.ends_with(end);
  };
  if (ends_with(" is required")) {
    text.resize(text.size() - std::string(" is required").size());
    return text[0] == '-' ? "option " + text + " is missing."
                          : "the argument '" + text + "' is missing.";
  }
  if (ends_with(" missing")) return text.substr(0, text.find(':')) + ": expected a value.";
  if (const std::size_t at = text.find(" excludes "); at != std::string::npos) {
    return text.substr(0, at) + " and " + text.substr(at + 10) + " cannot be given together.";
  }
  return sentence(text);
}

int report_status(const Status& status) {
  if (status.ok()) return 0;
  const char* kind = status.code() == StatusCode::kInternal ? "internal error" : "error";
  std::fprintf(stderr, "%s: %s\n", kind, one_line(status.message()).c_str());
  return 1;
}

// Parses with CLI11, which throws. -1: go on.
int parse(CLI::App& app, CLI::App* command, std::vector<std::string> arguments) {
  const std::string shown = command == nullptr ? "mezzo" : "mezzo " + command->get_name();
  if (command != nullptr) {
    const Status config = add_config_file(*command, arguments);
    if (!config.ok()) return usage_error(sentence(config.message()), shown);
    arguments.insert(arguments.begin(), command->get_name());
  }
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return usage_error(describe(command == nullptr ? app : *command, error), shown);
  }
  return -1;
}

// An unset variable in a script must not turn an option off in silence.
void refuse_empty_names(CLI::App& command) {
  constexpr std::string_view kPaths[] = {"FILE", "DIR", "HTML", "JSON", "MODEL", "NPZ", "NPZ|DIR"};
  for (CLI::Option* option : command.get_options()) {
    if (std::find(std::begin(kPaths), std::end(kPaths), option->get_type_name()) !=
        std::end(kPaths))
      option->check(accepted_by([](const std::string& text) {
        return text.empty() ? invalid_argument("expected a path, got ''") : ok_status();
      }));
  }
}

int run(const std::vector<std::string>& arguments) {
  CLI::App app{"mezzo rewrites ONNX models to mixed precision and trains them without Python.",
               "mezzo"};
  app.set_version_flag("--version", std::string("mezzo ") + MEZZO_VERSION,
                       "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("REQUIRED", "(required)");
  // Whoever wraps a command can append options that overrule earlier ones.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.footer("`mezzo COMMAND --help` shows its options and examples.");

  CLI::App* chosen = nullptr;
  Work work;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer(std::string("Examples:\n") + command.examples);
    Work of_command = command.add(*sub);
    refuse_empty_names(*sub);
    if (arguments.empty() || arguments[0] != command.name) continue;
    chosen = sub;
    work = std::move(of_command);
  }
  if (chosen == nullptr && !arguments.empty() && arguments[0][0] != '-') {
    return usage_error(unknown_command(arguments[0]), "mezzo");
  }
  if (arguments.empty()) return usage_error("no command given.", "mezzo");
  const std::vector<std::string> rest(arguments.begin() + (chosen == nullptr ? 0 : 1),
                                      arguments.end());
  const int status = parse(app, chosen, rest);
  if (status >= 0) return status;
  const Status done = work();
  if (done.ok() && mappings_damaged()) {
    return report_status(invalid_argument(std::string(kMappingDamage)));
  }
  return report_status(done);
}

// OpenMP's threads spin while they wait for each other, by default for so long that they use up
// their time slices: beside another busy program a step then waits for whole slices of the one that
// was sent away. ResNet-18 on 2 threads of 2 cores takes 8.5 ms; beside a compiler it took 27 to
// 480, and with short spins 17 to 28, at no cost where the cores are free. The library reads its
// environment while it is loaded, so the program starts itself anew.
void spin_shortly(int argc, char** argv) {
  constexpr const char* kSpins = "GOMP_SPINCOUNT";
  const char* threads = std::getenv("OMP_NUM_THREADS");
  const bool alone =
      (threads != nullptr && std::string_view(threads) == "1") || sysconf(_SC_NPROCESSORS_ONLN) < 2;
  const bool computes =
      argc > 1 && std::any_of(std::begin(kCommands), std::end(kCommands), [&](const Command& c) {
        return c.computes && std::string_view(argv[1]) == c.name;
      });
  if (!computes || alone || std::getenv(kSpins) != nullptr ||
      std::getenv("OMP_WAIT_POLICY") != nullptr || setenv(kSpins, "5000", 0) != 0) {
    return;
  }
  execv("/proc/self/exe", argv);  // returns where there is no such file: as before, then
}

// Faults of files are errors to report, not signals to die of.
void prepare_process() {
  guard_mappings();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows beyond a limit: write() then says so
}

}  // namespace
}  // namespace mezzo::cli

int main(int argc, char** argv) {
  mezzo::cli::spin_shortly(argc, argv);
  mezzo::cli::prepare_process();
  try {
    return mezzo::cli::run({argv + std::min(argc, 1), argv + argc});
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error: out of memory\n");
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "internal error: %s\n", exception.what());
  }
  return 1;
}
