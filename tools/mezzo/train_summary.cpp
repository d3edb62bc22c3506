#include "tools/mezzo/train_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "compiler/support/atomic_file.h"
#include "compiler/support/text.h"
#include "tools/mezzo/train_report.h"

namespace mezzo::cli {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// With the weights, and with their moving average if there is one.
Status add_evaluation(const FinishedRun& run, nlohmann::json& summary) {
  const TrainOptions& options = run.options;
  if (options.eval_data.empty()) return ok_status();
  for (const std::string prefix : {"", "ema_"}) {
    if (!prefix.empty() && options.trainer.average_decay <= 0) continue;
    MEZZO_ASSIGN_OR_RETURN(const runtime::Evaluation evaluation,
                           run.session.evaluate(options.eval_data, !prefix.empty()));
    summary[prefix + "eval_loss"] = evaluation.loss;
    if (evaluation.accuracy) summary[prefix + "eval_accuracy"] = *evaluation.accuracy;
  }
  return ok_status();
}

void print_evaluation(const nlohmann::json& summary, const std::string& prefix,
                      const char* subject) {
  if (!summary.contains(prefix + "eval_loss")) return;
  std::printf("%s loss %.4f", subject, summary[prefix + "eval_loss"].get<double>());
  if (summary.contains(prefix + "eval_accuracy"))
    std::printf(", accuracy %.2f %%", 100 * summary[prefix + "eval_accuracy"].get<double>());
  std::printf("\n");
}

nlohmann::json memory_json(const FinishedRun& run) {
  const runtime::MemoryUse& memory = run.executor.memory();
  return {{"planned_bytes", memory.arena_bytes},
          {"workspace_bytes", memory.workspace_bytes},
          {"optimizer_bytes", run.session.state_bytes()},
          {"activation_bytes", run.compiled.records.planned_peak_bytes},
          {"activation_live_bytes", run.compiled.records.live_bytes}};
}

// What a step asks of the device and costs the host: README.md explains it. Empty on the CPU.
StatusOr<nlohmann::json> device_json(const FinishedRun& run) {
  nlohmann::json json = nlohmann::json::object();
  const runtime::Device* const device = run.executor.device();
  const runtime::DeviceSteps* const steps = run.session.device_steps();
  if (device == nullptr || steps == nullptr) return json;
  json["device"] = device->info().name;
  json["cuda_graph"] = steps->has_graph();
  if (!steps->has_graph()) {
    json["why_no_cuda_graph"] =
        steps->why_no_graph().empty() ? "the run had but one step" : steps->why_no_graph();
  }
  MEZZO_ASSIGN_OR_RETURN(const std::uint64_t free_bytes, device->free_bytes());
  const std::uint64_t at_start = device->info().free_bytes;
  json["device_reserved_bytes"] = at_start > free_bytes ? at_start - free_bytes : 0;
  const auto cost = steps->cost();
  if (!cost) return json;
  json["host_us_median"] = cost->host_us;
  json["batch_us_median"] = cost->batch_us;
  json["device_wait_us_median"] = cost->wait_us;
  json["launches_per_step"] = cost->calls.launches;
  json["copies_per_step"] = cost->calls.copies;
  json["waits_per_step"] = cost->calls.waits;
  return json;
}

void print_device(const nlohmann::json& summary) {
  if (!summary.contains("host_us_median")) return;
  const auto calls = [&](const char* name) { return summary[name].get<unsigned long long>(); };
  std::printf("a step of the host: %.0f us, %llu launches, %llu copies, %llu waits; %s\n",
              summary["host_us_median"].get<double>(), calls("launches_per_step"),
              calls("copies_per_step"), calls("waits_per_step"),
              summary["cuda_graph"].get<bool>() ? "by CUDA graph" : "kernel by kernel");
}

nlohmann::json summary_of(const FinishedRun& run) {
  nlohmann::json summary = memory_json(run);
  summary["model"] = run.compiled.records.model;
  summary["precision"] = run.compiled.records.precision;
  summary["steps"] = run.session.steps_done();
  summary["skipped_steps"] = run.session.skipped_steps();
  if (std::isfinite(run.last_loss)) summary["final_loss"] = run.last_loss;
  summary["step_ms_median"] = median(run.step_ms);
  summary["step_flops"] =
      run.compiled.plan()->summary().flops() * static_cast<double>(run.options.trainer.accumulate);
  summary["trained"] = run.compiled.trained;
  summary["untrained"] = run.compiled.untrained;
  summary["groups"] = groups_json(run.options.trainer.groups);
  summary["optimizers"] = optimizers_json(run.session);
  std::int64_t casts = 0;
  for (const CastDecision& cast : run.compiled.records.casts) casts += cast.ahead_of_time ? 0 : 1;
  summary["casts_inserted"] = casts;
  return summary;
}

void print_summary(const FinishedRun& run, const nlohmann::json& summary) {
  std::printf("final loss %s, %.3g ms per step, %lld skipped\n",
              format_number(run.last_loss).c_str(), median(run.step_ms),
              static_cast<long long>(run.session.skipped_steps()));
  print_device(summary);
  print_evaluation(summary, "", "held-out");
  print_evaluation(summary, "ema_", "held-out, with averaged weights,");
  std::printf("memory planned %s + workspace %s, process peak %s\n",
              format_bytes(run.executor.memory().arena_bytes).c_str(),
              format_bytes(run.executor.memory().workspace_bytes).c_str(),
              format_bytes(summary["process_peak_bytes"].get<std::uint64_t>()).c_str());
  const char* out = run.options.out.c_str();
  std::printf("wrote %s/metrics.jsonl, %s/checkpoint, %s/summary.json\n", out, out, out);
  if (run.options.profile) print_profile(run.executor);
}

}  // namespace

Status finish_run(const FinishedRun& run, const RunFolder& folder) {
  nlohmann::json summary = summary_of(run);
  MEZZO_ASSIGN_OR_RETURN(const nlohmann::json device, device_json(run));
  summary.update(device);
  MEZZO_RETURN_IF_ERROR(add_evaluation(run, summary));
  summary["process_peak_bytes"] = peak_resident_bytes();
  // The data set and what libraries allocate come on top of what is planned.
  summary["measured_peak_bytes"] = peak_growth_bytes(run.resident_before);
  MEZZO_RETURN_IF_ERROR(write_file(folder.file("summary.json"), summary.dump(2) + "\n"));
  if (run.options.json)
    std::printf("%s\n", summary.dump(2).c_str());
  else
    print_summary(run, summary);
  return ok_status();
}

}  // namespace mezzo::cli
