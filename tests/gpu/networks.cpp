#include "tests/gpu/networks.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "tests/gpu/network_files.h"

namespace mezzo::gpu {
namespace {

const std::vector<std::string> kNetworks = {"resnet50", "bert_base", "gpt2_small", "deeplabv3plus"};
constexpr int kMostWarmup = 6;      // steps that are not looked at: libraries load, clocks rise
constexpr double kLeastLimit = 45;  // seconds for a run, if there are as many
constexpr double kLossTolerance = 0.05;  // of the first loss in 16 bits, relative to FP32's

double median(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What `torch_side.py` is asked for at a time.
const std::vector<std::vector<std::string>> kTorchFirst = {{"eager_bf16", "compiled_bf16"}};
const std::vector<std::vector<std::string>> kTorchRest = {
    {"eager_fp32"}, {"eager_fp16"}, {"compiled_fp16"}, {"compiled_fp32"}};

std::vector<std::string> torch_command(const Check& check, const std::string& network,
                                       const std::string& out, int steps) {
  return {check.python, check.folder + "/networks/torch_side.py", network, out,
          std::to_string(steps)};
}

Environment torch_environment(const Check& check) {
  return {{"TORCHINDUCTOR_CACHE_DIR", check.work + "/inductor"},
          {"TRITON_CACHE_DIR", check.work + "/triton"},
          {"PYTHONDONTWRITEBYTECODE", "1"}};
}

class Networks {
 public:
  Networks(const Check& check, double end_s) : check_(check), end_s_(end_s) {}

  Json run() {
    const double start = now_s();
    names_ = chosen(check_.networks, kNetworks);
    for (const std::string& name : names_) all_[name] = Json::object();
    runs_left_ = names_.size() * (5 + (check_.with_torch ? 2 : 0));
    each([&](const std::string& name) { prepare(name); });
    for (const char* precision : {"bf16", "fp32", "fp16"})
      each([&](const std::string& name) { measure(name, precision, precision, {}); });
    if (check_.with_torch) torch(kTorchFirst);
    each([&](const std::string& name) {
      measure(name, "bf16_eager", "bf16", {"--cuda-graph", "off"});
    });
    each([&](const std::string& name) { profile(name); });
    if (check_.with_torch) torch(kTorchRest);
    for (const std::string& name : names_) compare(all_[name]);
    std::error_code ignored;
    for (const std::string& name : names_) std::filesystem::remove_all(folder(name), ignored);
    Json result = {{"verdict", verdict()},
                   {"steps", check_.steps},
                   {"warmup", warmup()},
                   {"networks", all_},
                   {"seconds", now_s() - start}};
    if (!torch_.is_null()) result["torch"] = torch_;
    return result;
  }

 private:
  std::string folder(const std::string& name) const { return check_.work + "/" + name; }
  std::string model(const std::string& name) const { return folder(name) + "/" + name + ".onnx"; }
  int warmup() const { return std::min(kMostWarmup, check_.steps / 2); }

  template <typename Work>
  void each(const Work& work) {
    for (const std::string& name : names_) {
      if (all_[name].contains("error")) continue;
      try {
        work(name);
      } catch (const std::exception& error) {
        all_[name]["error"] = error.what();
        tell(check_, name + ": " + error.what());
      }
    }
  }

  // Twice what there is for each if all is shared evenly: most take less than their share.
  double run_limit() {
    const double left = end_s_ - now_s();
    const auto runs = static_cast<double>(std::max<std::size_t>(1, runs_left_));
    if (runs_left_ > 1) --runs_left_;
    return std::min(left, std::max(kLeastLimit, 2 * left / runs));
  }

  void prepare(const std::string& name) {
    namespace fs = std::filesystem;
    fs::create_directories(folder(name));
    const std::string source = check_.folder + "/" + check_.networks_folder + "/" + name;
    const Json recipe = read_json(source + ".json");
    if (recipe.is_discarded()) throw std::runtime_error("cannot read " + source + ".json");
    fs::copy_file(source + ".onnx", model(name), fs::copy_options::overwrite_existing);
    all_[name]["batch"] = recipe.at("batch");
    all_[name]["source"] = recipe.at("source");
    write_weights(folder(name) + "/" + name + ".weights", recipe);
    write_data(folder(name) + "/data.npz", recipe);
  }

  ProcessResult train(const std::string& name, const std::string& precision, const std::string& out,
                      int steps, const std::vector<std::string>& more, double limit_s) const {
    auto command = check_.program("mezzo");
    command.insert(command.end(),
                   {"train", model(name), "--data", folder(name) + "/data.npz", "--batch-size",
                    all_[name]["batch"].dump(), "--no-shuffle", "--steps", std::to_string(steps),
                    "--optimizer", "adamw", "--lr", "1e-5", "--precision", precision, "--device",
                    "cuda", "--out", out});
    command.insert(command.end(), more.begin(), more.end());
    return check_.run(command, limit_s);
  }

  void measure(const std::string& name, const std::string& entry_name, const std::string& precision,
               const std::vector<std::string>& more) {
    Json& entry = all_[name][entry_name] = {{"verdict", kNotRun}};
    if (now_s() >= end_s_) return;
    const std::string out = folder(name) + "/run";
    const ProcessResult run = train(name, precision, out, check_.steps, more, run_limit());
    entry["verdict"] = run.cut_off ? kCutOff : kFailed;
    entry["process"] = describe(run);
    if (run.ok()) read_run(out, entry);
    std::filesystem::remove_all(out);
    tell(check_, name + " " + entry_name + ": " + told(entry));
  }

  static std::string told(const Json& entry) {
    if (!entry.contains("step_ms")) return entry["verdict"];
    return entry["step_ms"].dump() + " ms a step, " + entry["tflops"].dump() + " TFLOP/s";
  }

  void read_run(const std::string& out, Json& entry) const {
    std::vector<double> ms, losses;
    for (const Json& row : read_json_lines(out + "/metrics.jsonl")) {
      if (row.at("step").get<int>() > warmup()) ms.push_back(row.at("step_ms"));
      if (row.at("loss").is_number()) losses.push_back(row.at("loss"));
    }
    const Json summary = read_json(out + "/summary.json");
    entry["step_ms"] = median(ms);
    entry["step_ms_least"] = ms.empty() ? Json() : Json(*std::min_element(ms.begin(), ms.end()));
    entry["tflops"] = summary.at("step_flops").get<double>() / (median(ms) * 1e9);
    entry["first_loss"] = losses.empty() ? Json() : Json(losses.front());
    entry["last_loss"] = losses.empty() ? Json() : Json(losses.back());
    for (const char* name :
         {"step_flops", "activation_bytes", "planned_bytes", "workspace_bytes", "optimizer_bytes",
          "device_reserved_bytes", "host_us_median", "batch_us_median", "device_wait_us_median",
          "launches_per_step", "copies_per_step", "waits_per_step", "cuda_graph",
          "why_no_cuda_graph", "skipped_steps"}) {
      if (summary.contains(name)) entry[name] = summary[name];
    }
    const bool waits = summary.value("waits_per_step", 0) > 0;
    if (waits) entry["error"] = "a step waits for the device";
    if (!waits && !losses.empty()) entry["verdict"] = kPassed;
  }

  // Which operators take the time: the text that --profile prints.
  void profile(const std::string& name) {
    Json& entry = all_[name]["bf16_profile"] = {{"verdict", kNotRun}};
    if (now_s() >= end_s_) return;
    const std::string out = folder(name) + "/run";
    const ProcessResult run =
        train(name, "bf16", out, 4, {"--cuda-graph", "off", "--profile"}, run_limit());
    entry = describe(run);
    entry["verdict"] = run.ok() ? kPassed : run.cut_off ? kCutOff : kFailed;
    std::filesystem::remove_all(out);
  }

  void torch(const std::vector<std::vector<std::string>>& wanted) {
    for (const auto& variants : wanted) {
      for (const std::string& name : names_) {
        if (!torch_.is_null() || now_s() >= end_s_) continue;
        measure_torch(name, variants);
      }
    }
  }

  void measure_torch(const std::string& name, const std::vector<std::string>& variants) {
    const std::string path = check_.work + "/torch.json";
    std::filesystem::remove(path);
    auto command = torch_command(check_, name, path, check_.steps);
    command.insert(command.end(), variants.begin(), variants.end());
    const ProcessResult run = check_.run_other(command, run_limit(), torch_environment(check_));
    const Json got = read_json(path);
    // Without PyTorch, or with one that knows no GPU, it says so before anything else.
    if (!run.ok() && !run.cut_off && run.status < 128 && !got.is_object()) {
      torch_ = describe(run);
      torch_["verdict"] = kAbsent;
      return;
    }
    Json& entry = all_[name]["torch"];
    if (got.is_object()) {
      for (const auto& [key, value] : got.items()) entry[key] = value;
    }
    for (const std::string& variant : variants) {
      if (!entry.contains(variant)) entry[variant] = {{"process", describe(run)}};
    }
  }

  static std::optional<double> number(const Json& entry, const std::string& run, const char* name) {
    if (!entry.contains(run) || !entry[run].contains(name) || !entry[run][name].is_number())
      return std::nullopt;
    return entry[run][name].get<double>();
  }

  static void compare(Json& entry) {
    Json& ratios = entry["ratios"] = Json::object();
    const auto ratio = [&](const char* name, const Json& over, const std::string& a,
                           const Json& under, const std::string& b, const char* figure) {
      const auto above = number(over, a, figure), below = number(under, b, figure);
      if (above && below && *below > 0) ratios[name] = *above / *below;
    };
    ratio("bf16_over_fp32", entry, "fp32", entry, "bf16", "step_ms");
    ratio("fp16_over_fp32", entry, "fp32", entry, "fp16", "step_ms");
    ratio("graph_over_eager", entry, "bf16_eager", entry, "bf16", "step_ms");
    ratio("bf16_activations", entry, "bf16", entry, "fp32", "activation_bytes");
    ratio("fp16_activations", entry, "fp16", entry, "fp32", "activation_bytes");
    const Json torch = entry.value("torch", Json::object());
    for (const std::string precision : {"bf16", "fp16", "fp32"}) {
      for (const std::string way : {"eager", "compiled"}) {
        ratio(("over_torch_" + way + "_" + precision).c_str(), torch, way + "_" + precision, entry,
              precision, "step_ms");
      }
    }
    compare_losses(entry);
    compare_goals(entry);
  }

  // The same weights and data: a wrong kernel of this size shows here.
  static void compare_losses(Json& entry) {
    const auto wide = number(entry, "fp32", "first_loss");
    for (const char* low : {"bf16", "fp16", "bf16_eager"}) {
      const auto loss = number(entry, low, "first_loss");
      if (!wide || !loss || std::fabs(*loss - *wide) <= kLossTolerance * std::fabs(*wide)) continue;
      entry[low]["verdict"] = kFailed;
      entry[low]["error"] = "the first loss is not that of FP32";
    }
  }

  // Numbers to reach, of issue and README; null where a figure is missing.
  static void compare_goals(Json& entry) {
    Json& goals = entry["goals"] = Json::object();
    const Json& ratios = entry["ratios"];
    const auto goal = [&](const char* name, std::optional<double> value, bool least, double limit) {
      goals[name] = value ? Json(least ? *value >= limit : *value <= limit) : Json();
    };
    const auto ratio = [&](const char* name) {
      return ratios.contains(name) ? std::optional(ratios[name].get<double>()) : std::nullopt;
    };
    goal("bf16 at least 2.0 times as fast as fp32", ratio("bf16_over_fp32"), true, 2);
    goal("bf16 activations at most 0.55 of fp32's", ratio("bf16_activations"), false, 0.55);
    goal("at least as fast as torch.compile in bf16", ratio("over_torch_compiled_bf16"), true, 1);
    goal("host time per step under 50 us", number(entry, "bf16", "host_us_median"), false, 50);
  }

  // Of our own runs: what PyTorch does not manage is not our failure.
  std::string_view verdict() const {
    std::string_view all = kPassed;
    for (const auto& [name, entry] : all_.items()) {
      if (entry.contains("error")) all = worse(all, kFailed);
      for (const char* run : {"fp32", "bf16", "fp16", "bf16_eager", "bf16_profile"}) {
        if (entry.contains(run)) all = worse(all, entry[run]["verdict"].get<std::string>());
      }
    }
    return all;
  }

  const Check& check_;
  double end_s_;
  std::vector<std::string> names_;
  std::size_t runs_left_ = 0;
  Json torch_;  // why there is none
  Json all_ = Json::object();
};

constexpr std::uint64_t kRoomForBoth = std::uint64_t{40} << 30;

}  // namespace

Json run_networks(const Check& check, double end_s) { return Networks(check, end_s).run(); }

TorchWarmup::TorchWarmup(const Check& check, double end_s) {
  if (!check.with_torch || check.device_bytes < kRoomForBoth) {
    result_ = {{"verdict", kNotRun}};
    return;
  }
  thread_ = std::jthread([this, &check, end_s] {
    result_ = Json::object();
    for (const std::string& name : chosen(check.networks, kNetworks)) {
      auto command = torch_command(check, name, check.work + "/warmup.json", 2);
      command.emplace_back("compiled_bf16");
      const ProcessResult run = check.run_other(command, end_s - now_s(), torch_environment(check));
      result_[name] = describe(run);
      if (!run.ok()) return;  // no torch, or no time
    }
  });
}

Json TorchWarmup::finish() {
  if (thread_.joinable()) thread_.join();
  return result_;
}

}  // namespace mezzo::gpu
