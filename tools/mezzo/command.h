// What every command is: options added to a CLI11 subcommand, and a function that does the work.
#pragma once

#include <functional>
#include <string>

#include "compiler/support/status.h"

namespace CLI {
class App;
}

namespace mezzo::cli {

// Adds the subcommand to `app`; returns what runs it once options are parsed. Options live in the
// returned function.
using Work = std::function<Status()>;
Work add_convert(CLI::App& app);
Work add_train(CLI::App& app);
Work add_compile(CLI::App& app);
Work add_run(CLI::App& app);
Work add_inspect(CLI::App& app);
Work add_compare(CLI::App& app);
Work add_report(CLI::App& app);
Work add_bench(CLI::App& app);
Work add_devices(CLI::App& app);
Work add_opt(CLI::App& app);

}  // namespace mezzo::cli
