// Checks the CUDA part on a GPU and writes what it found as JSON. tools/gpu_check calls it.
//
//   gpu_check FOLDER OUT.json [--limit SECONDS] [--no-torch]
//
// FOLDER holds what tools/gpu_check packed: bin/mezzo, bin/gpu_kernels_test, lib/, refs/,
// networks/. Exit status 0 when all that ran was as it should be, 1 otherwise, 2 for usage.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/gpu/networks.h"
#include "tests/gpu/process.h"
#include "tests/gpu/references.h"

namespace mezzo::gpu {
namespace {

using Json = nlohmann::json;

struct Options {
  std::string folder, out;
  double limit_s = 460;
  bool with_torch = true;
};

// What the time is divided into, as parts of the whole: the kernels' tests and those under
// compute-sanitizer, then the references, end by these points; networks have what is left.
constexpr double kKernelsEnd = 0.35, kSanitizerEnd = 0.45, kReferencesEnd = 0.62;

Json process_json(const ProcessResult& run) {
  Json json = {{"ok", run.status == 0}, {"status", run.status}, {"seconds", run.seconds}};
  json["end_of_output"] =
      run.output.substr(run.output.size() - std::min<std::size_t>(run.output.size(), 4000));
  return json;
}

Json devices(const Options& options) {
  const ProcessResult run = run_process({options.folder + "/bin/mezzo", "devices", "--json"}, 60);
  const Json json = Json::parse(run.output, nullptr, false);
  return json.is_discarded() ? Json{{"error", run.output}} : json;
}

bool has_cuda(const Json& devices) {
  return devices.contains("devices") && devices["devices"].size() > 1;
}

// A subset, as everything takes ten times as long.
Json sanitizer(const Options& options, double limit_s) {
  Json all;
  for (const char* tool : {"memcheck", "racecheck"}) {
    const ProcessResult run = run_process({"compute-sanitizer", "--tool", tool, "--error-exitcode",
                                           "9", options.folder + "/bin/gpu_kernels_test",
                                           "--gtest_filter=*Softmax*:*CrossEntropy*:*Reduce*"},
                                          limit_s / 2);
    if (run.status == 127) return {{"present", false}};
    all[tool] = process_json(run);
  }
  all["present"] = true;
  return all;
}

bool all_ok(const Json& entries) {
  for (const Json& entry : entries) {
    if (!entry.value("ok", true) || entry.contains("error")) return false;
    for (const char* precision : {"fp32", "bf16", "fp16"}) {
      if (entry.contains(precision) && entry[precision].contains("error")) return false;
    }
  }
  return true;
}

int check(const Options& options) {
  const double start = now_s();
  const auto until = [&](double part) { return start + part * options.limit_s; };
  Json result = {{"devices", devices(options)}};
  if (!has_cuda(result["devices"])) {
    result["ok"] = false;
    result["error"] = "no CUDA device";
  } else {
    const std::string work =
        std::filesystem::temp_directory_path() / ("gpu_check_" + std::to_string(getpid()));
    std::filesystem::create_directories(work);
    const ProcessResult kernels =
        run_process({options.folder + "/bin/gpu_kernels_test"}, until(kKernelsEnd) - now_s());
    result["kernels"] = process_json(kernels);
    result["compute_sanitizer"] = sanitizer(options, until(kSanitizerEnd) - now_s());
    Check references{options.folder + "/bin/mezzo", options.folder, work, until(kReferencesEnd)};
    result["references"] = check_references(references);
    Check networks = references;
    networks.deadline_s = until(1);
    result["networks"] = check_networks(networks, options.with_torch);
    std::error_code ignored;
    std::filesystem::remove_all(work, ignored);
    result["ok"] =
        kernels.status == 0 && all_ok(result["references"]) && all_ok(result["networks"]);
  }
  result["seconds"] = now_s() - start;
  std::ofstream file(options.out);
  file << result.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  if (!file.flush()) {
    std::fprintf(stderr, "gpu_check: cannot write %s\n", options.out.c_str());
    return 1;
  }
  std::printf("%s: %s\n", options.out.c_str(), result["ok"].get<bool>() ? "ok" : "NOT ok");
  return result["ok"].get<bool>() ? 0 : 1;
}

}  // namespace
}  // namespace mezzo::gpu

int main(int count, char** arguments) {
  mezzo::gpu::Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--limit" && i + 1 < count) {
      options.limit_s = std::strtod(arguments[++i], nullptr);
    } else if (argument == "--no-torch") {
      options.with_torch = false;
    } else if (options.folder.empty()) {
      options.folder = argument;
    } else {
      options.out = argument;
    }
  }
  if (options.out.empty() || !(options.limit_s > 0)) {
    std::fprintf(stderr, "usage: gpu_check FOLDER OUT.json [--limit SECONDS] [--no-torch]\n");
    return 2;
  }
  return mezzo::gpu::check(options);
}
