#include "tests/gpu/sanitizer.h"

#include <filesystem>

namespace mezzo::gpu {
namespace {

// Kernels with shared memory and barriers, and few of them: everything takes ten times as long.
constexpr const char* kTests =
    "Softmax.*:CrossEntropy.*:Reduce.EveryKindOverRandomAxes:Norm.LayerNormalization*:"
    "Movement.*:Norm.BatchNormalization*:Scan.*";

std::string find_sanitizer(const Check& check) {
  for (const std::string path : {"compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer",
                                 "/usr/local/cuda/compute-sanitizer/compute-sanitizer",
                                 "/opt/cuda/extras/compute-sanitizer/compute-sanitizer"}) {
    if (check.run_other({path, "--version"}, 30).ok()) return path;
  }
  return {};
}

struct Run {
  std::string tool, what;
  std::vector<std::string> command;
};

std::vector<Run> runs(const Check& check) {
  auto tests = check.program("gpu_kernels_test");
  tests.push_back(std::string("--gtest_filter=") + kTests);
  std::vector<Run> all = {{"memcheck", "kernel tests", tests},
                          {"racecheck", "kernel tests", tests}};
  const std::string mlp = check.folder + "/refs/mlp";
  if (std::filesystem::is_directory(mlp)) {
    auto train = check.program("mezzo");
    train.insert(train.end(), {"train", mlp + "/model_ts17.onnx", "--data", mlp + "/data.npz",
                               "--batch-size", "32", "--steps", "4", "--precision", "bf16",
                               "--device", "cuda", "--out", check.work + "/sanitized"});
    all.insert(all.begin() + 1, {"memcheck", "training of mlp", train});
  }
  return all;
}

Json run_one(const Check& check, const std::string& sanitizer, const Run& run, double end_s) {
  std::vector<std::string> command = {sanitizer, "--tool",        run.tool, "--error-exitcode",
                                      "9",       "--print-limit", "20"};
  command.insert(command.end(), run.command.begin(), run.command.end());
  const std::string log = check.work + "/sanitizer.log";
  std::filesystem::remove(log);
  const ProcessResult result = check.run(command, end_s - now_s(), {{"MEZZO_GPU_TEST_LOG", log}});
  std::size_t tests = 0;
  for (const Json& row : read_json_lines(log)) tests += row.contains("test") ? 1 : 0;
  Json json = describe(result);
  json["verdict"] = result.cut_off ? kCutOff : result.ok() ? kPassed : kFailed;
  json["tool"] = run.tool;
  json["what"] = run.what;
  json["tests"] = tests;
  return json;
}

}  // namespace

Json run_sanitizer(const Check& check, double end_s) {
  const std::string sanitizer = find_sanitizer(check);
  if (sanitizer.empty()) return {{"verdict", kAbsent}};
  const std::vector<Run> all = runs(check);
  Json result = {{"verdict", kPassed}, {"runs", Json::array()}};
  std::string_view verdict = kPassed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double share = (end_s - now_s()) / static_cast<double>(all.size() - i);
    Json run = run_one(check, sanitizer, all[i], now_s() + share);
    verdict = worse(verdict, run["verdict"].get<std::string>());
    result["runs"].push_back(std::move(run));
  }
  result["verdict"] = verdict;
  return result;
}

}  // namespace mezzo::gpu
