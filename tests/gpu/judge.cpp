#include "tests/gpu/judge.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/io/npz.h"
#include "runtime/io/safetensors.h"

namespace mezzo::gpu {
namespace {

using Numbers = std::vector<double>;

// As the run's options have them; the other precisions have no scale.
struct ScaleRule {
  double scale = 1;
  int interval = 0;  // 0: it stays
};

ScaleRule scale_rule(const std::string& precision) {
  if (precision == "fp16") return {1024, 2000};
  if (precision == "fp16_dynamic") return {65536, 20};
  return {};
}

template <typename T>
T value_of(StatusOr<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).value();
}

// [[last step, limit], ...]: the limit at a step, counted from 1.
double limit_at(const Json& band, std::size_t step) {
  for (const Json& part : band) {
    if (step <= part[0].get<std::size_t>()) return part[1].get<double>();
  }
  throw std::runtime_error("a band that ends before step " + std::to_string(step));
}

// NaN where there is no number.
Numbers column(const std::vector<Json>& rows, const char* name) {
  Numbers values;
  for (const Json& row : rows)
    values.push_back(row.at(name).is_number() ? row.at(name).get<double>() : std::nan(""));
  return values;
}

// The largest error in units of its limit; infinite where a number is missing.
double worst_of(const Numbers& got, const Numbers& want, const Json& band, std::size_t steps,
                double least_size) {
  double most = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    const double error =
        std::fabs(got.at(i) - want.at(i)) / std::max(std::fabs(want.at(i)), least_size);
    const double part = error / limit_at(band, i + 1);
    most = std::isnan(part) ? HUGE_VAL : std::max(most, part);
  }
  return most;
}

Numbers smoothed(const Numbers& values, std::size_t window) {
  Numbers means;
  for (std::size_t i = 0; i + window <= values.size(); ++i) {
    double sum = 0;
    for (std::size_t k = 0; k < window; ++k) sum += values[i + k];
    means.push_back(sum / static_cast<double>(window));
  }
  return means;
}

double worst_mean(const Numbers& got, const Numbers& want, std::size_t window, double limit) {
  return worst_of(smoothed(got, window), smoothed(want, window), Json::array({{1 << 30, limit}}),
                  smoothed(want, window).size(), 0);
}

float float_at(std::span<const std::byte> bytes, std::size_t i) {
  float value = 0;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

// How far the weights are from the recorded ones, over how far those moved.
double weights_off(const Reference& reference, const std::string& run, const std::string& start) {
  const char* const kFile = "/checkpoint/model.safetensors";
  const auto final = value_of(runtime::NpzFile::open(reference.folder + "/final_adamw.npz"));
  const auto got = value_of(runtime::SafetensorsFile::open(run + kFile));
  const auto before = value_of(runtime::SafetensorsFile::open(start + kFile));
  double off = 0, moved = 0;
  for (const runtime::ArrayInfo& array : final.arrays()) {
    const auto want = value_of(final.read(array.name));
    const auto* const mine = value_of(got.get_floats(array.name, array.shape));
    const auto* const first = value_of(before.get_floats(array.name, array.shape));
    for (std::size_t i = 0; i < array.elems; ++i) {
      const double goal = float_at(want.bytes, i);
      off += std::pow(float_at(mine->bytes, i) - goal, 2);
      moved += std::pow(goal - float_at(first->bytes, i), 2);
    }
  }
  return std::sqrt(off / moved);
}

// Empty, or the first step whose scale is not PyTorch's.
std::string wrong_scale(const std::vector<Json>& rows, ScaleRule rule) {
  int clean = 0;
  for (const Json& row : rows) {
    if (std::fabs(row.at("loss_scale").get<double>() - rule.scale) > 1e-6 * rule.scale) {
      return "loss scale at step " + row.at("step").dump() + ": expected " +
             std::to_string(rule.scale) + ", got " + row.at("loss_scale").dump();
    }
    if (row.at("skipped").get<bool>()) {
      rule.scale /= 2;
      clean = 0;
    } else if (rule.interval > 0 && ++clean == rule.interval) {
      rule.scale *= 2;
      clean = 0;
    }
  }
  return {};
}

std::string wrong_rate(const std::vector<Json>& rows, const Numbers& want) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double lr = rows[i].at("lr").get<double>();
    if (std::fabs(lr - want.at(i)) > 1e-6 * std::fabs(want.at(i)) + 1e-12) {
      return "learning rate at step " + std::to_string(i + 1) + ": expected " +
             std::to_string(want[i]) + ", got " + std::to_string(lr);
    }
  }
  return {};
}

}  // namespace

bool judge_run(const Reference& reference, const std::string& precision, const std::string& run,
               const std::string& start, Json& entry) {
  const Json& setup = reference.setup();
  const Json& band = setup.at("bands").at(precision);
  const auto rows = read_json_lines(run + "/metrics.jsonl");
  const auto loss = setup.at("fp32").at("loss").get<Numbers>();
  const auto norm = setup.at("fp32").at("grad_norm").get<Numbers>();
  const auto is_skipped = [](const Json& row) { return row.at("skipped").get<bool>(); };
  const auto skipped = std::count_if(rows.begin(), rows.end(), is_skipped);
  entry["steps"] = rows.size();
  entry["skipped"] = skipped;
  Json& outside = entry["outside"] = Json::array();
  if (rows.size() != loss.size()) {
    outside.push_back("expected " + std::to_string(loss.size()) + " steps");
    return false;
  }
  // Where a step was skipped, later ones are another run than the recorded one.
  const auto steps =
      static_cast<std::size_t>(std::find_if(rows.begin(), rows.end(), is_skipped) - rows.begin());
  const auto window = static_cast<std::size_t>(std::max(1, 10 / setup.at("accumulate").get<int>()));
  const Numbers got = column(rows, "loss");
  Json& parts = entry["of_band"];
  parts["loss"] = worst_of(got, loss, band.at("loss"), steps, 0.1 * std::fabs(loss.at(0)));
  parts["smooth"] = worst_mean(got, loss, window, band.at("smooth"));
  parts["grad_norm"] = worst_of(column(rows, "grad_norm"), norm, band.at("grad_norm"), steps, 0);
  parts["weights"] = weights_off(reference, run, start) / band.at("weights").get<double>();
  for (const auto& [name, part] : parts.items()) {
    if (!(part.get<double>() <= 1)) outside.push_back(name);
  }
  const auto most_skipped = precision == "fp16_dynamic" ? band.at("skipped").get<int>() : 0;
  if (skipped > most_skipped) outside.push_back("steps skipped");
  const auto rates = setup.at("lr").get<Numbers>();
  for (const std::string& wrong :
       {wrong_scale(rows, scale_rule(precision)), skipped > 0 ? "" : wrong_rate(rows, rates)}) {
    if (!wrong.empty()) outside.push_back(wrong);
  }
  return outside.empty();
}

}  // namespace mezzo::gpu
