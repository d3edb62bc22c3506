#include "tests/gpu/references.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "tests/gpu/judge.h"

namespace mezzo::gpu {
namespace {

constexpr double kRunLimit = 90;
constexpr int kMostJobs = 6;  // they share the GPU

const std::vector<std::string> kReferences = {"mlp",          "lenet", "resnet8",
                                              "resnet8_silu", "bert",  "gpt"};

// The judge's options, as tests/cuda_on_cpu/references_test.py runs them.
const std::vector<std::pair<std::string, std::vector<std::string>>> kPrecisions = {
    {"fp32", {"--precision", "fp32"}},
    {"bf16", {"--precision", "bf16", "--loss-scale", "off"}},
    {"fp16",
     {"--precision", "fp16", "--loss-scale", "dynamic", "--loss-scale-init", "1024",
      "--loss-scale-growth-interval", "2000", "--loss-scale-max", "none"}},
    {"fp16_dynamic",
     {"--precision", "fp16", "--loss-scale", "dynamic", "--loss-scale-init", "65536",
      "--loss-scale-growth-interval", "20", "--loss-scale-max", "none"}},
};

struct Run {
  std::string reference, precision;
  std::vector<std::string> options;
  bool graph = true;
};

class References {
 public:
  References(const Check& check, double end_s) : check_(check), end_s_(end_s) {}

  Json run() {
    const double start = now_s();
    const std::vector<Run> runs = plan();
    if (runs.empty()) return {{"verdict", kNotRun}, {"why", "no references came along"}};
    std::vector<Json> entries(runs.size());
    in_parallel(runs.size(), std::min(check_.jobs, kMostJobs),
                [&](std::size_t i) { entries[i] = run_one(runs[i]); });
    compare_modes(entries);
    std::string_view verdict = kPassed;
    for (const Json& entry : entries)
      verdict = worse(verdict, entry.at("verdict").get<std::string>());
    return {{"verdict", verdict}, {"runs", entries}, {"seconds", now_s() - start}};
  }

 private:
  // Graphs first: what time does not suffice for are the eager runs of the last references.
  std::vector<Run> plan() const {
    std::vector<Run> runs;
    for (const bool graph : {true, false}) {
      for (const std::string& name : chosen(check_.references, kReferences)) {
        if (!std::filesystem::is_directory(check_.folder + "/refs/" + name)) continue;
        for (const auto& [precision, options] : kPrecisions)
          runs.push_back({name, precision, options, graph});
      }
    }
    return runs;
  }

  Json run_one(const Run& run) {
    Json entry = {{"reference", run.reference},
                  {"precision", run.precision},
                  {"mode", run.graph ? "graph" : "eager"},
                  {"verdict", kNotRun}};
    if (now_s() >= end_s_) return entry;
    entry["verdict"] = kFailed;
    const std::string out =
        check_.work + "/" + run.reference + "_" + run.precision + (run.graph ? "" : "_eager");
    try {
      const Reference reference{
          check_.folder + "/refs/" + run.reference,
          read_json(check_.folder + "/refs/" + run.reference + "/expected.json")};
      train(reference, run, out, entry);
    } catch (const std::exception& error) {
      entry["error"] = error.what();
    }
    std::error_code ignored;
    std::filesystem::remove_all(out, ignored);
    if (entry["verdict"] == kFailed) tell(check_, run.reference + " " + run.precision + " failed");
    return entry;
  }

  void train(const Reference& reference, const Run& run, const std::string& out, Json& entry) {
    std::vector<std::string> command = command_of(reference, out);
    command.insert(command.end(), {"--device", "cuda"});
    for (const Json& flag : reference.setup().at("flags")) command.push_back(flag);
    command.insert(command.end(), run.options.begin(), run.options.end());
    if (!run.graph) command.insert(command.end(), {"--cuda-graph", "off"});
    const ProcessResult process = check_.run(command, std::min(kRunLimit, end_s_ - now_s()));
    entry["seconds"] = process.seconds;
    if (!process.ok()) {
      entry["process"] = describe(process);
      if (process.cut_off && now_s() >= end_s_) entry["verdict"] = kCutOff;
      return;
    }
    bool good = judge_run(reference, run.precision, out, start_of(reference), entry);
    good = judge_calls(read_json(out + "/summary.json"), run, reference, entry) && good;
    entry["verdict"] = good ? kPassed : kFailed;
    if (!good) entry["process"] = describe(process);
    const std::lock_guard lock(mutex_);
    metrics_[key(entry)] = untimed(read_json_lines(out + "/metrics.jsonl"));
  }

  std::vector<std::string> command_of(const Reference& reference, const std::string& out) const {
    auto command = check_.program("mezzo");
    command.insert(command.end(), {"train", reference.folder + "/model_ts17.onnx", "--data",
                                   reference.folder + "/data.npz", "--batch-size",
                                   reference.expected.at("batch_size").dump(), "--no-shuffle",
                                   "--steps", reference.setup().at("steps").dump(), "--out", out});
    if (reference.setup().at("accumulate").get<int>() > 1) {
      command.insert(command.end(), {"--accumulate", reference.setup().at("accumulate").dump()});
    }
    return command;
  }

  // The weights before the first step, made once for each reference by one that changes none.
  std::string start_of(const Reference& reference) {
    const std::lock_guard lock(start_mutex_);
    const std::string out =
        check_.work + "/start_" + std::filesystem::path(reference.folder).filename().string();
    if (std::filesystem::is_directory(out)) return out;
    auto command = check_.program("mezzo");
    command.insert(
        command.end(),
        {"train", reference.folder + "/model_ts17.onnx", "--data", reference.folder + "/data.npz",
         "--batch-size", reference.expected.at("batch_size").dump(), "--steps", "1", "--optimizer",
         "sgd", "--lr", "0", "--device", "cpu", "--out", out});
    const ProcessResult run = check_.run(command, kRunLimit);
    if (!run.ok()) throw std::runtime_error(describe(run).dump());
    return out;
  }

  // What a step asked of the device.
  static bool judge_calls(const Json& summary, const Run& run, const Reference& reference,
                          Json& entry) {
    for (const char* name :
         {"cuda_graph", "why_no_cuda_graph", "launches_per_step", "copies_per_step",
          "waits_per_step", "host_us_median", "device_wait_us_median", "step_ms_median"}) {
      if (summary.contains(name)) entry[name] = summary[name];
    }
    const auto expect = [&](bool right, const char* what) {
      if (!right) entry["outside"].push_back(what);
      return right;
    };
    bool good = expect(summary.at("waits_per_step") == 0, "a step waits for the device");
    if (!run.graph) return good;
    good = expect(summary.at("cuda_graph") == true, "steps are no graph") && good;
    return expect(summary.at("launches_per_step") == reference.setup().at("accumulate"),
                  "a step is more than its graph") &&
           good;
  }

  static std::vector<Json> untimed(std::vector<Json> rows) {
    for (Json& row : rows) row.erase("step_ms");
    return rows;
  }
  static std::string key(const Json& entry) {
    return entry["reference"].get<std::string>() + " " + entry["precision"].get<std::string>() +
           " " + entry["mode"].get<std::string>();
  }

  void compare_modes(std::vector<Json>& entries) const {
    for (Json& entry : entries) {
      if (entry["mode"] != "eager") continue;
      Json other = entry;
      other["mode"] = "graph";
      const auto graph = metrics_.find(key(other)), eager = metrics_.find(key(entry));
      if (graph == metrics_.end() || eager == metrics_.end()) continue;
      const bool same = graph->second == eager->second;
      entry["same_as_graph"] = same;
      if (same) continue;
      entry["outside"].push_back("other numbers than those of the graph");
      entry["verdict"] = kFailed;
    }
  }

  const Check& check_;
  double end_s_;
  std::mutex mutex_, start_mutex_;
  std::map<std::string, std::vector<Json>> metrics_;
};

}  // namespace

Json run_references(const Check& check, double end_s) { return References(check, end_s).run(); }

}  // namespace mezzo::gpu
