#include "tests/gpu/networks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>

#include "compiler/plan/plan.pb.h"
#include "runtime/exec/plan_file.h"
#include "runtime/io/npz.h"
#include "tests/gpu/process.h"

namespace mezzo::gpu {
namespace {

using Json = nlohmann::json;

constexpr const char* kNetworks[] = {"resnet50", "bert_base", "gpt2_small", "deeplabv3plus"};
constexpr const char* kPrecisions[] = {"fp32", "bf16", "fp16"};
constexpr int kSteps = 24;
constexpr int kWarmup = 6;  // steps that are not looked at: libraries load, clocks rise
constexpr double kRunLimit = 75;
constexpr std::int64_t kBatches = 2;  // of data; steps wrap around

// Uniform numbers of the given mean and deviation, as fast as they can be written.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed * 2 + 1) {}
  float next(double mean, double deviation) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    const double unit = static_cast<double>(state_ >> 11) * 0x1p-53;
    return static_cast<float>(mean + deviation * std::sqrt(12.0) * (unit - 0.5));
  }
  std::int64_t below(std::int64_t limit) {
    return std::min<std::int64_t>(
        limit - 1, static_cast<std::int64_t>(next(0.5, 0.2886) * static_cast<double>(limit)));
  }

 private:
  std::uint64_t state_;
};

// NAME.weights, as export.py's recipe says. Throws.
void write_weights(const std::string& path, const Json& recipe) {
  const auto bytes = recipe.at("weights_bytes").get<std::size_t>();
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0)
    throw std::runtime_error("cannot write " + path);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (data == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  Draws draws(1);
  for (const Json& tensor : recipe.at("tensors")) {
    const auto offset = tensor.at("offset").get<std::size_t>();
    const auto elems = tensor.at("elems").get<std::size_t>();
    const double mean = tensor.at("mean"), deviation = tensor.at("deviation");
    if (offset % sizeof(float) != 0 || offset > bytes || elems > (bytes - offset) / sizeof(float))
      throw std::runtime_error("a tensor beyond the weights of " + path);
    auto* to = reinterpret_cast<float*>(static_cast<char*>(data) + offset);
    for (std::size_t i = 0; i < elems; ++i) to[i] = draws.next(mean, deviation);
  }
  munmap(data, bytes);
}

void expect(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

void write_data(const std::string& path, const Json& recipe) {
  auto writer = runtime::NpzWriter::create(path);
  expect(writer.status());
  Draws draws(2);
  for (const Json& input : recipe.at("inputs")) {
    auto shape = input.at("shape").get<std::vector<std::int64_t>>();
    shape.at(0) *= kBatches;
    std::size_t elems = 1;
    for (const std::int64_t dim : shape) elems *= static_cast<std::size_t>(dim);
    const auto name = input.at("name").get<std::string>();
    const auto classes = input.at("classes").get<std::int64_t>();
    if (classes > 0) {
      std::vector<std::int64_t> values(elems);
      for (std::int64_t& value : values) value = draws.below(classes);
      expect(writer->add(name, DType::kInt64, shape, std::as_bytes(std::span(values))));
    } else {
      std::vector<float> values(elems);
      for (float& value : values) value = draws.next(0, 1);
      expect(writer->add(name, DType::kFloat32, shape, std::as_bytes(std::span(values))));
    }
  }
  expect(writer->commit());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Network {
 public:
  Network(const Check& check, const std::string& name)
      : check_(check), name_(name), folder_(check.work + "/" + name) {}

  Json measure(bool with_torch) {
    Json entry = {{"network", name_}};
    try {
      prepare();
      entry["batch"] = recipe_.at("batch");
      for (const char* precision : kPrecisions) {
        if (now_s() < check_.deadline_s) entry[precision] = train(precision);
      }
      entry["ratios"] = ratios(entry);
      if (with_torch && now_s() < check_.deadline_s) entry["torch"] = torch();
    } catch (const std::exception& error) {
      entry["error"] = error.what();
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    return entry;
  }

 private:
  void prepare() {
    namespace fs = std::filesystem;
    fs::create_directories(folder_);
    const std::string source = check_.folder + "/networks/" + name_;
    recipe_ = Json::parse(std::ifstream(source + ".json"));
    fs::copy_file(source + ".onnx", model(), fs::copy_options::overwrite_existing);
    write_weights(folder_ + "/" + name_ + ".weights", recipe_);
    write_data(folder_ + "/data.npz", recipe_);
  }
  std::string model() const { return folder_ + "/" + name_ + ".onnx"; }

  // FLOPs of a step, as the plan's summary has them.
  double flops(const std::string& precision) const {
    const std::string path = folder_ + "/step.plan";
    const ProcessResult run = run_process({check_.mezzo, "compile", model(), "-o", path, "--train",
                                           "--precision", precision, "--device", "cuda"},
                                          kRunLimit);
    if (run.status != 0) throw std::runtime_error("mezzo compile: " + run.output);
    const auto plan = runtime::load_plan(path);
    expect(plan.status());
    return plan->plan->summary().flops();
  }

  Json train(const std::string& precision) const {
    Json result;
    const std::string out = folder_ + "/run_" + precision;
    const ProcessResult run = run_process({check_.mezzo,
                                           "train",
                                           model(),
                                           "--data",
                                           folder_ + "/data.npz",
                                           "--batch-size",
                                           recipe_.at("batch").dump(),
                                           "--no-shuffle",
                                           "--steps",
                                           std::to_string(kSteps),
                                           "--optimizer",
                                           "adamw",
                                           "--lr",
                                           "1e-5",
                                           "--precision",
                                           precision,
                                           "--device",
                                           "cuda",
                                           "--out",
                                           out},
                                          std::min(kRunLimit, check_.deadline_s - now_s()));
    result["seconds"] = run.seconds;
    if (run.status != 0) {
      result["status"] = run.status;
      result["error"] = run.output;
      return result;
    }
    std::vector<double> ms, losses;
    std::ifstream metrics(out + "/metrics.jsonl");
    for (std::string line; std::getline(metrics, line);) {
      const Json row = Json::parse(line);
      if (row.at("step").get<int>() > kWarmup) ms.push_back(row.at("step_ms"));
      if (row.at("loss").is_number()) losses.push_back(row.at("loss"));
    }
    const Json summary = Json::parse(std::ifstream(out + "/summary.json"));
    result["step_ms"] = median(ms);
    result["first_loss"] = losses.empty() ? Json() : Json(losses.front());
    result["last_loss"] = losses.empty() ? Json() : Json(losses.back());
    for (const char* name :
         {"activation_bytes", "planned_bytes", "workspace_bytes", "optimizer_bytes",
          "host_us_median", "launches_per_step", "waits_per_step", "cuda_graph"}) {
      if (summary.contains(name)) result[name] = summary[name];
    }
    const double step_flops = flops(precision);
    result["step_flops"] = step_flops;
    result["tflops"] = step_flops / (median(ms) * 1e9);
    return result;
  }

  static Json ratios(const Json& entry) {
    Json all;
    for (const char* low : {"bf16", "fp16"}) {
      if (!entry.contains("fp32") || !entry.contains(low)) continue;
      const Json &wide = entry["fp32"], &narrow = entry[low];
      if (!wide.contains("step_ms") || !narrow.contains("step_ms")) continue;
      all[std::string(low) + "_speed"] =
          wide["step_ms"].get<double>() / narrow["step_ms"].get<double>();
      all[std::string(low) + "_activations"] =
          narrow["activation_bytes"].get<double>() / wide["activation_bytes"].get<double>();
    }
    return all;
  }

  Json torch() const {
    const std::string path = folder_ + "/torch.json";
    const ProcessResult run = run_process(
        {"python3", check_.folder + "/networks/torch_side.py", name_, path, std::to_string(kSteps)},
        std::min(150.0, check_.deadline_s - now_s()));
    std::ifstream file(path);
    if (!file) return {{"status", run.status}, {"error", run.output}};
    return Json::parse(file);
  }

  const Check& check_;
  std::string name_, folder_;
  Json recipe_;
};

}  // namespace

Json check_networks(const Check& check, bool with_torch) {
  Json all = Json::array();
  for (const char* name : kNetworks) {
    if (now_s() < check.deadline_s) all.push_back(Network(check, name).measure(with_torch));
  }
  return all;
}

}  // namespace mezzo::gpu
