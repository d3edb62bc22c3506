// mezzo bench: FP32 against mixed precision side by side: time, memory, difference of the outputs.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/report/text_table.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/json_util.h"
#include "compiler/support/text.h"
#include "tools/mezzo/bench_subject.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/device_options.h"
#include "tools/mezzo/file_kind.h"
#include "tools/mezzo/option_checks.h"
#include "tools/mezzo/options.h"
#include "tools/mezzo/output_places.h"

namespace mezzo::cli {
namespace {

constexpr int kWarmupRuns = 3;
constexpr double kDefaultMs = 1000;  // without --repeat: as many runs as this holds
constexpr int kFewestRuns = 5, kMostRuns = 1000;

struct Contender {
  std::string name;  // "fp32", "bf16", "fp16"; "plan" for a plan
  BenchSubject subject;
  std::vector<double> ms;

  double median() const {
    std::vector<double> sorted = ms;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }
  double least() const { return *std::min_element(ms.begin(), ms.end()); }
};

// The largest difference beside the largest value: 1e-3 reads "three digits agree".
struct Difference {
  double absolute = 0, relative = 0;
};

Difference difference(const std::vector<double>& expected, const std::vector<double>& actual) {
  Difference worst;
  double scale = 0;
  for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    if (std::isfinite(expected[i])) scale = std::max(scale, std::fabs(expected[i]));
    if (expected[i] == actual[i] || (std::isnan(expected[i]) && std::isnan(actual[i]))) continue;
    const double apart = std::fabs(expected[i] - actual[i]);
    worst.absolute = std::isnan(apart) ? HUGE_VAL : std::max(worst.absolute, apart);
  }
  worst.relative = worst.absolute == 0 ? 0 : worst.absolute / scale;
  return worst;
}

std::string milliseconds(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, ms < 1 ? "%.4f" : ms < 100 ? "%.3f" : "%.1f", ms);
  return text;
}

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

struct BenchCommand {
  std::string model, input, json;
  PolicyOptions policy;
  DimOptions dims;
  ThreadOptions threads;
  DeviceArguments device;
  std::int64_t repeat = 0, seed = 0;
  bool profile = false, paced = false;

  Status run() const {
    MEZZO_RETURN_IF_ERROR(
        expect_different({{"--json", json}}, {{"the model", model}, {"--input", input}}));
    MEZZO_ASSIGN_OR_RETURN(std::vector<Contender> contenders, prepare());
    for (int i = 0; i < kWarmupRuns; ++i) MEZZO_RETURN_IF_ERROR(run_each(contenders));
    const int runs = repeat > 0 ? static_cast<int>(repeat) : fitting_runs(contenders);
    if (paced) return serve(contenders, runs);
    for (Contender& contender : contenders) contender.ms.clear();
    for (int i = 0; i < runs; ++i) MEZZO_RETURN_IF_ERROR(run_each(contenders));
    print_table(contenders);
    if (profile) {
      for (const Contender& contender : contenders) print_profile(contender);
    }
    if (json.empty()) return ok_status();
    return write_file(json, json_text(to_json(contenders), 1) + "\n");
  }

  // FP32 first, unless a plan or a low precision alone is asked for.
  StatusOr<std::vector<Contender>> prepare() const {
    SessionOptions options;
    options.threads = threads.count();
    options.profile = profile;
    MEZZO_ASSIGN_OR_RETURN(options.device, device.open());
    options.compile.device = device.kind();
    CompileOptions& compile = options.compile;
    MEZZO_ASSIGN_OR_RETURN(compile.policy, policy.to_policy());
    MEZZO_ASSIGN_OR_RETURN(compile.dims, dims.parse());
    std::vector<std::pair<std::string, passes::PrecisionPolicy>> wanted;
    if (model.ends_with(".plan")) {
      if (policy.ask_for_precision() || policy.force_fp32) {
        return invalid_argument(model +
                                ": a plan's precision is settled. Hint: give the model instead");
      }
      wanted.emplace_back("plan", compile.policy);
    } else {
      passes::PrecisionPolicy fp32 = compile.policy, low = compile.policy;
      fp32.force_fp32 = true;
      if (!policy.ask_for_precision()) low.low = DType::kBFloat16;  // what CPUs multiply
      wanted.emplace_back("fp32", fp32);
      if (!compile.policy.force_fp32)
        wanted.emplace_back(low.low == DType::kBFloat16 ? "bf16" : "fp16", low);
    }
    std::vector<Contender> contenders;
    for (auto& [name, chosen] : wanted) {
      compile.policy = chosen;
      compile.padding = padding_of(chosen);
      MEZZO_ASSIGN_OR_RETURN(
          BenchSubject subject,
          BenchSubject::create(model, options, input, static_cast<std::uint64_t>(seed)));
      contenders.push_back({name, std::move(subject), {}});
    }
    return contenders;
  }

  // In turn, so that whatever else the machine does meets all alike.
  static Status run_each(std::vector<Contender>& contenders) {
    for (Contender& contender : contenders) {
      MEZZO_ASSIGN_OR_RETURN(const double ms, contender.subject.run());
      contender.ms.push_back(ms);
    }
    return ok_status();
  }

  static int fitting_runs(const std::vector<Contender>& contenders) {
    double round = 1e-3;
    for (const Contender& contender : contenders) round += contender.least();
    return std::clamp(static_cast<int>(std::min(kDefaultMs / round, 1e6)), kFewestRuns, kMostRuns);
  }

  // One round of `runs` per line read; its median per contender goes out as a line of JSON.
  static Status serve(std::vector<Contender>& contenders, int runs) {
    for (std::string line; std::getline(std::cin, line);) {
      nlohmann::json medians;
      for (Contender& contender : contenders) {
        contender.ms.clear();
        for (int i = 0; i < runs; ++i) {
          MEZZO_ASSIGN_OR_RETURN(const double ms, contender.subject.run());
          contender.ms.push_back(ms);
        }
        medians[contender.name] = contender.median();
      }
      std::cout << json_text(medians) << std::endl;  // the reader waits for it
    }
    return ok_status();
  }

  static void print_table(const std::vector<Contender>& contenders) {
    TextTable table({{"precision"},
                     {"median ms", true},
                     {"min ms", true},
                     {"speed-up", true},
                     {"memory", true},
                     {"difference", true},
                     {"relative", true}});
    const Contender& first = contenders.front();
    for (const Contender& contender : contenders) {
      const Difference apart = difference(first.subject.outputs(), contender.subject.outputs());
      char ratio[32];
      std::snprintf(ratio, sizeof ratio, "%.2f", first.median() / contender.median());
      const bool is_first = &contender == &first;
      table.add({contender.name, milliseconds(contender.median()), milliseconds(contender.least()),
                 is_first ? "" : ratio, format_bytes(contender.subject.memory_bytes()),
                 is_first ? "" : scientific(apart.absolute),
                 is_first ? "" : scientific(apart.relative)});
    }
    std::fputs(table.text(terminal_width()).c_str(), stdout);
  }

  // Where the time went: by kernel, then the slowest steps.
  static void print_profile(const Contender& contender) {
    struct Group {
      std::uint64_t steps = 0;
      double ms = 0;
    };
    std::map<std::pair<std::string, std::string>, Group> groups;
    std::vector<runtime::StepProfile> steps = contender.subject.profile();
    double total = 0;
    for (runtime::StepProfile& step : steps) {
      step.total_ms /= static_cast<double>(std::max<std::uint64_t>(step.runs, 1));
      Group& group = groups[{step.op, step.implementation}];
      ++group.steps;
      group.ms += step.total_ms;
      total += step.total_ms;
    }
    const auto percent = [&](double ms) {
      char text[32];
      std::snprintf(text, sizeof text, "%.1f", total > 0 ? 100 * ms / total : 0.0);
      return std::string(text);
    };
    std::vector<std::pair<std::pair<std::string, std::string>, Group>> rows(groups.begin(),
                                                                            groups.end());
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
    TextTable by_kernel(
        {{"operator"}, {"kernel", false, 12}, {"steps", true}, {"ms", true}, {"%", true}});
    for (const auto& [key, group] : rows)
      by_kernel.add({key.first, key.second, std::to_string(group.steps), milliseconds(group.ms),
                     percent(group.ms)});
    std::stable_sort(steps.begin(), steps.end(),
                     [](const auto& a, const auto& b) { return a.total_ms > b.total_ms; });
    TextTable by_step({{"node", false, 12}, {"operator"}, {"ms", true}, {"%", true}});
    for (std::size_t i = 0; i < std::min<std::size_t>(steps.size(), 20); ++i)
      by_step.add({printable(steps[i].node), steps[i].op, milliseconds(steps[i].total_ms),
                   percent(steps[i].total_ms)});
    std::printf("\n%s, one run:\n%s\n%s", contender.name.c_str(),
                by_kernel.text(terminal_width()).c_str(), by_step.text(terminal_width()).c_str());
  }

  nlohmann::json to_json(const std::vector<Contender>& contenders) const {
    nlohmann::json rows = nlohmann::json::array();
    for (const Contender& contender : contenders) {
      const Difference apart =
          difference(contenders.front().subject.outputs(), contender.subject.outputs());
      nlohmann::json row = {{"precision", contender.name},
                            {"median_ms", contender.median()},
                            {"min_ms", contender.least()},
                            {"runs", contender.ms.size()},
                            {"memory_bytes", contender.subject.memory_bytes()},
                            {"max_difference", json_from_number(apart.absolute)},
                            {"relative_difference", json_from_number(apart.relative)}};
      if (profile) {
        nlohmann::json steps = nlohmann::json::array();
        for (const runtime::StepProfile& step : contender.subject.profile()) {
          steps.push_back({{"node", step.node},
                           {"op", step.op},
                           {"implementation", step.implementation},
                           {"runs", step.runs},
                           {"ms", step.total_ms}});
        }
        row["steps"] = std::move(steps);
      }
      rows.push_back(std::move(row));
    }
    return {{"model", model},
            {"device", device.name},
            {"threads", threads.count()},
            {"results", std::move(rows)}};
  }
};

}  // namespace

Work add_bench(CLI::App& app) {
  auto command = std::make_shared<BenchCommand>();
  app.add_option("model", command->model, "ONNX model, or a plan (.plan)")
      ->required()
      ->type_name("FILE");
  app.add_option("--input", command->input,
                 "The graph's inputs, as for `run` (default: drawn at random; integers 0 or 1)")
      ->type_name("NPZ|DIR");
  app.add_option("--repeat", command->repeat,
                 "Runs per precision (default: about a second of them)")
      ->type_name("N")
      ->check(whole_number(1, 1'000'000));
  app.add_option("--seed", command->seed, "Of inputs that are drawn")
      ->type_name("N")
      ->check(whole_number(0));
  app.add_flag("--profile", command->profile, "Print where the time goes");
  app.add_flag(
      "--paced", command->paced,
      "Measure --repeat runs per line read from standard input, print their median as JSON");
  app.add_option("--json", command->json, "Write the figures to this file")->type_name("JSON");
  command->policy.add_to(app, /*takes_fp32=*/true, /*has_io=*/false);
  app.get_option("--precision")->description("Low type beside FP32 (default: bf16), or fp32 alone");
  command->dims.add_to(app);
  command->threads.add_to(app);
  command->device.add_to(app);
  return [command] { return command->run(); };
}

}  // namespace mezzo::cli
