#include "tests/passes/pass_case.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "compiler/onnx/import.h"
#include "passes/pass_runner.h"
#include "tests/support/temp_dir.h"

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRun = "# RUN: mezzo opt ", kCheck = "# CHECK:", kFails = "# FAILS: ";

}  // namespace

std::vector<std::string> case_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".onnxtxt") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

StatusOr<PassCase> read_case(const std::string& path) {
  PassCase test;
  test.path = path;
  test.text = read_text(path);
  if (!test.text.starts_with(kRun)) {
    return invalid_argument(path + ": expected '" + std::string(kRun) + "...' as first line");
  }
  std::istringstream lines(test.text);
  bool expects = false, in_check = false;
  for (std::string line; std::getline(lines, line);) {
    if (in_check) {
      if (!line.starts_with("#"))
        return invalid_argument(path + ": expected only comments behind '# CHECK:'");
      test.expected += (line.size() > 2 ? line.substr(2) : "") + "\n";
    } else if (line.starts_with(kRun)) {
      test.command = line.substr(kRun.size());
    } else if (line.starts_with(kFails)) {
      test.fails = line.substr(kFails.size());
      expects = true;
    } else if (line == kCheck) {
      in_check = expects = true;
    }
  }
  if (!expects) return invalid_argument(path + ": expects nothing. Hint: run tools/update_checks");
  return test;
}

StatusOr<cli::OptOptions> parse_options(const std::string& command) {
  cli::OptOptions options;
  CLI::App app;
  options.add_to(app);
  try {
    app.parse(command);
  } catch (const CLI::Error& error) {
    return invalid_argument("'" + command + "': " + error.what());
  }
  return options;
}

StatusOr<std::string> run_case(const PassCase& test) {
  MEZZO_ASSIGN_OR_RETURN(const cli::OptOptions options, parse_options(test.command));
  MEZZO_ASSIGN_OR_RETURN(const auto model,
                         import_text(test.text, fs::path(test.path).filename().string()));
  MEZZO_ASSIGN_OR_RETURN(passes::PassContext ctx, options.to_context());
  MEZZO_RETURN_IF_ERROR(run_named(*model, ctx, options.passes));
  return options.print(*model);
}

std::string without_trailing_blanks(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') {
      while (!result.empty() && result.back() == ' ') result.pop_back();
    }
    result += c;
  }
  return result;
}

Status run_named(Model& model, passes::PassContext& ctx, const std::string& names) {
  MEZZO_ASSIGN_OR_RETURN(const auto chosen, passes::parse_passes(names));
  return passes::run_passes(model, ctx, chosen);
}

}  // namespace mezzo::test
