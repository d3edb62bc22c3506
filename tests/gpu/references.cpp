#include "tests/gpu/references.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/gpu/process.h"

namespace mezzo::gpu {
namespace {

using Json = nlohmann::json;

constexpr const char* kReferences[] = {"mlp", "lenet", "resnet8", "resnet8_silu", "bert", "gpt"};
constexpr double kRunLimit = 60;

struct Precision {
  const char* name;
  std::vector<std::string> options;
};

// As tests/cuda_on_cpu/references_test.py has them from the judge.
std::vector<Precision> precisions() {
  return {
      {"fp32", {"--precision", "fp32"}},
      {"bf16", {"--precision", "bf16", "--loss-scale", "off"}},
      {"fp16",
       {"--precision", "fp16", "--loss-scale", "dynamic", "--loss-scale-init", "1024",
        "--loss-scale-growth-interval", "2000", "--loss-scale-max", "none"}},
      {"fp16_dynamic",
       {"--precision", "fp16", "--loss-scale", "dynamic", "--loss-scale-init", "65536",
        "--loss-scale-growth-interval", "20", "--loss-scale-max", "none"}},
  };
}

// [[last step, limit], ...]: the limit at a step, counted from 1.
double limit_at(const Json& band, std::size_t step) {
  for (const Json& part : band) {
    if (step <= part[0].get<std::size_t>()) return part[1].get<double>();
  }
  return 0;
}

// The largest error of a curve in units of its band, over the first `steps` steps.
double worst(const std::vector<Json>& rows, const char* name, const std::vector<double>& want,
             const Json& band, std::size_t steps, double least_scale) {
  double most = 0;
  for (std::size_t i = 0; i < std::min(steps, rows.size()); ++i) {
    if (rows[i].at(name).is_null()) continue;  // a skipped step's norm
    const double error = std::fabs(rows[i].at(name).get<double>() - want[i]) /
                         std::max(std::fabs(want[i]), least_scale);
    const double part = error / limit_at(band, i + 1);
    if (!(part <= most)) most = part;
  }
  return most;
}

std::vector<Json> read_metrics(const std::string& path) {
  std::vector<Json> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
  return rows;
}

// Throws where what the run wrote, or what was recorded, is not as it should be.
void judge(const Json& setup, const std::string& precision, const std::vector<Json>& rows,
           Json& entry) {
  const auto loss = setup.at("fp32").at("loss").get<std::vector<double>>();
  const auto norm = setup.at("fp32").at("grad_norm").get<std::vector<double>>();
  std::size_t clean = 0, skipped = 0;
  for (const Json& row : rows) skipped += row.at("skipped").get<bool>() ? 1 : 0;
  while (clean < rows.size() && !rows[clean].at("skipped").get<bool>()) ++clean;
  const std::size_t steps = precision == "fp16_dynamic" ? clean : rows.size();
  const Json& band = setup.at("bands").at(precision);
  entry["steps"] = rows.size();
  entry["skipped"] = skipped;
  entry["loss_of_band"] =
      worst(rows, "loss", loss, band.at("loss"), steps, 0.1 * std::fabs(loss[0]));
  entry["grad_norm_of_band"] = worst(rows, "grad_norm", norm, band.at("grad_norm"), steps, 1e-30);
  entry["ok"] = rows.size() == loss.size() && entry["loss_of_band"].get<double>() <= 1 &&
                entry["grad_norm_of_band"].get<double>() <= 1;
}

Json run_one(const Check& check, const std::string& name, const Precision& precision) {
  Json entry = {{"reference", name}, {"precision", precision.name}, {"ok", false}};
  const std::string folder = check.folder + "/refs/" + name;
  const std::string out = check.work + "/" + name + "_" + precision.name;
  try {
    const Json expected = Json::parse(std::ifstream(folder + "/expected.json"));
    const Json& setup = expected.at("setups").at("adamw");
    std::vector<std::string> command = {check.mezzo,
                                        "train",
                                        folder + "/model_ts17.onnx",
                                        "--data",
                                        folder + "/data.npz",
                                        "--batch-size",
                                        expected.at("batch_size").dump(),
                                        "--no-shuffle",
                                        "--steps",
                                        setup.at("steps").dump(),
                                        "--out",
                                        out,
                                        "--device",
                                        "cuda"};
    if (setup.at("accumulate").get<int>() > 1) {
      command.emplace_back("--accumulate");
      command.push_back(setup.at("accumulate").dump());
    }
    for (const Json& flag : setup.at("flags")) command.push_back(flag.get<std::string>());
    command.insert(command.end(), precision.options.begin(), precision.options.end());
    const ProcessResult run = run_process(command, std::min(kRunLimit, check.deadline_s - now_s()));
    entry["seconds"] = run.seconds;
    if (run.status != 0) {
      entry["error"] = run.output;
      entry["status"] = run.status;
      return entry;
    }
    judge(setup, precision.name, read_metrics(out + "/metrics.jsonl"), entry);
  } catch (const std::exception& error) {
    entry["error"] = error.what();
  }
  std::error_code ignored;
  std::filesystem::remove_all(out, ignored);
  return entry;
}

}  // namespace

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Json check_references(const Check& check) {
  Json runs = Json::array();
  for (const char* name : kReferences) {
    if (!std::filesystem::is_directory(check.folder + "/refs/" + name)) continue;
    for (const Precision& precision : precisions()) {
      if (now_s() >= check.deadline_s) return runs;
      runs.push_back(run_one(check, name, precision));
    }
  }
  return runs;
}

}  // namespace mezzo::gpu
