// mezzo train: compiles a training plan in memory and runs it.

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/support/atomic_file.h"
#include "compiler/support/text.h"
#include "runtime/exec/trainer.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/compile_model.h"
#include "tools/mezzo/options.h"

namespace mezzo::cli {
namespace {

namespace fs = std::filesystem;

struct TrainCommand {
  std::string model, data, eval_data, out = "run", resume;
  PolicyOptions policy;
  DumpOptions dump;
  DimOptions dims;
  ThreadOptions threads;
  passes::TrainingOptions training;
  runtime::TrainerOptions trainer;
  std::string optimizer = "sgd", schedule = "constant", loss_scale, loss_scale_max = "65536", betas, on_overflow = "skip";
  std::int64_t batch_size = 0, steps = 0, epochs = 0, save_every = 0;
  bool no_shuffle = false, json = false, profile = false;

  void add_options(CLI::App& app);
  void add_training_options(CLI::App& app);
  Status run();

 private:
  Status read_options();
  Status train(const Compiled& compiled);
  std::string digest() const;
  Status finish(runtime::Executor& executor, runtime::Trainer& trainer, const Compiled& compiled, const std::vector<double>& step_ms, float last_loss);
};

void TrainCommand::add_options(CLI::App& app) {
  app.add_option("model", model, "ONNX model with its loss as an output")->required()->type_name("MODEL");
  app.add_option("--data", data, "npz with one array per graph input, samples first")->required()->type_name("NPZ");
  app.add_option("--eval-data", eval_data, "npz to evaluate on in FP32 after training")->type_name("NPZ");
  app.add_option("--batch-size", batch_size, "samples per micro-batch")->required()->check(CLI::PositiveNumber);
  auto* steps_option = app.add_option("--steps", steps, "optimizer steps")->check(CLI::PositiveNumber);
  app.add_option("--epochs", epochs, "passes over the data instead of --steps")->check(CLI::PositiveNumber)->excludes(steps_option);
  app.add_flag("--no-shuffle", no_shuffle, "take samples in file order, wrapped around");
  app.add_option("--loss-output", training.loss_output, "output to minimise (default: the only scalar)");
  app.add_option("--freeze", training.freeze, "do not train initializers whose name matches; repeatable")->type_name("REGEX")->allow_extra_args(false);
  app.add_option("--train", training.train, "train these in any case; repeatable")->type_name("REGEX")->allow_extra_args(false);
  app.add_option("--out", out, "folder for metrics.jsonl and checkpoint/")->capture_default_str();
  app.add_option("--resume", resume, "checkpoint folder to continue from")->type_name("DIR");
  app.add_option("--save-every", save_every, "also save a checkpoint every N steps")->check(CLI::PositiveNumber);
  app.add_option("--save-gradients", trainer.save_gradients_step, "write the gradients of this step")->type_name("STEP")->check(CLI::PositiveNumber);
  app.add_option("--seed", trainer.seed, "for shuffling and dropout")->capture_default_str();
  app.add_flag("--json", json, "print a summary as JSON");
  app.add_flag("--profile", profile, "print what each kind of step costs");
  app.set_config("--config", "", "read options from a file (TOML or INI, long names without dashes)");
  std::string device;
  app.add_option("--device", "where to run")->check(CLI::IsMember({"cpu"}))->default_str("cpu");
  add_training_options(app);
  policy.add_to(app, /*takes_fp32=*/true, /*has_io=*/false);
  dims.add_to(app);
  threads.add_to(app);
  dump.add_to(app);
}

void TrainCommand::add_training_options(CLI::App& app) {
  runtime::OptimizerGroup& group = trainer.optimizer;
  const auto finite = CLI::Range(0.0, std::numeric_limits<double>::max());
  app.add_option("--optimizer", optimizer)->check(CLI::IsMember({"sgd", "adam", "adamw"}))->capture_default_str();
  app.add_option("--lr", group.lr, "learning rate")->check(finite)->capture_default_str();
  app.add_option("--momentum", group.momentum, "of sgd")->check(finite);
  app.add_flag("--nesterov", group.nesterov, "Nesterov momentum");
  app.add_option("--weight-decay", group.weight_decay)->check(finite);
  app.add_option("--betas", betas, "of adam and adamw (default 0.9,0.999)")->type_name("A,B");
  app.add_option("--eps", group.eps, "of adam and adamw")->check(finite)->capture_default_str();
  app.add_option("--clip-norm", trainer.clip_norm, "limit of the global gradient norm")->check(finite);
  app.add_option("--clip-value", trainer.clip_value, "limit of every gradient element")->check(finite);
  app.add_option("--accumulate", trainer.accumulate, "micro-batches per optimizer step")->check(CLI::PositiveNumber);
  app.add_option("--schedule", schedule, "learning rate schedule: constant, warmup-cosine, cosine, step, one-cycle")->capture_default_str();
  app.add_option("--warmup-steps", trainer.schedule.warmup_steps)->check(CLI::NonNegativeNumber);
  app.add_option("--lr-step-size", trainer.schedule.step_size, "of the step schedule")->check(CLI::PositiveNumber);
  app.add_option("--lr-gamma", trainer.schedule.gamma, "of the step schedule")->check(finite);
  runtime::LossScalerOptions& scale = trainer.loss_scale;
  app.add_option("--loss-scale", loss_scale, "dynamic, static:F or off (default: dynamic for fp16, else off)");
  app.add_option("--loss-scale-init", scale.init_scale)->capture_default_str();
  app.add_option("--loss-scale-growth", scale.growth_factor)->capture_default_str();
  app.add_option("--loss-scale-backoff", scale.backoff_factor)->capture_default_str();
  app.add_option("--loss-scale-growth-interval", scale.growth_interval)->capture_default_str();
  app.add_option("--loss-scale-min", scale.min_scale)->capture_default_str();
  app.add_option("--loss-scale-max", loss_scale_max, "number or none")->capture_default_str();
  app.add_option("--loss-scale-hysteresis", scale.hysteresis)->capture_default_str();
  app.add_option("--on-overflow", on_overflow, "when gradients hold inf or NaN")->check(CLI::IsMember({"skip", "abort"}))->capture_default_str();
}

Status TrainCommand::read_options() {
  MEZZO_ASSIGN_OR_RETURN(trainer.optimizer.kind, runtime::parse_optimizer(optimizer));
  MEZZO_ASSIGN_OR_RETURN(trainer.schedule.kind, runtime::parse_lr_schedule(schedule));
  trainer.schedule.base_lr = trainer.optimizer.lr;
  if (!betas.empty()) {
    char rest = 0;
    if (std::sscanf(betas.c_str(), "%lf,%lf%c", &trainer.optimizer.beta1, &trainer.optimizer.beta2, &rest) != 2) {
      return invalid_argument("--betas '" + betas + "': expected two numbers such as 0.9,0.999");
    }
  }
  const bool fp16 = policy.precision == "fp16" && !policy.force_fp32;
  MEZZO_RETURN_IF_ERROR(runtime::parse_loss_scale(loss_scale.empty() ? (fp16 ? "dynamic" : "off") : loss_scale, trainer.loss_scale));
  char rest = 0;
  if (loss_scale_max == "none") {
    trainer.loss_scale.max_scale = std::numeric_limits<double>::infinity();
  } else if (std::sscanf(loss_scale_max.c_str(), "%lf%c", &trainer.loss_scale.max_scale, &rest) != 1) {
    return invalid_argument("--loss-scale-max '" + loss_scale_max + "': expected a number or none");
  }
  trainer.abort_on_overflow = on_overflow == "abort";
  trainer.threads = threads.count();
  trainer.out = out;
  return ok_status();
}

// What must not differ between a run and its continuation.
std::string TrainCommand::digest() const {
  const runtime::OptimizerGroup& g = trainer.optimizer;
  std::string text = fs::path(model).filename().string() + " " + policy.precision + " " + optimizer + " " + std::to_string(batch_size) +
                     " " + std::to_string(trainer.accumulate) + " " + schedule;
  for (const double number : {g.lr, g.momentum, g.weight_decay, g.beta1, g.beta2, g.eps, trainer.clip_norm, trainer.clip_value}) {
    text += " " + format_number(number);
  }
  return text;
}

Status TrainCommand::run() {
  MEZZO_RETURN_IF_ERROR(read_options());
  CompileOptions options;
  MEZZO_ASSIGN_OR_RETURN(options.policy, policy.to_policy());
  MEZZO_ASSIGN_OR_RETURN(options.dims, dims.parse());
  options.training = training;
  options.padding = policy.to_padding();
  options.batch_size = batch_size;
  options.train = true;
  options.evaluate = !eval_data.empty();
  options.runner = dump.to_runner();
  MEZZO_ASSIGN_OR_RETURN(const Compiled compiled, compile_model(model, options));
  return train(compiled);
}

Status TrainCommand::train(const Compiled& compiled) {
  MEZZO_ASSIGN_OR_RETURN(const auto executor,
                         runtime::Executor::create(compiled.plan(), weights_of(compiled.draft), {threads.count(), kernels::Backend::kCpu, profile}));
  runtime::DatasetOptions data_options;
  data_options.batch_size = batch_size;
  data_options.shuffle = !no_shuffle;
  data_options.seed = trainer.seed;
  MEZZO_ASSIGN_OR_RETURN(runtime::Dataset dataset, runtime::Dataset::open(data, runtime::input_expectations(*compiled.plan()), data_options));
  if (steps == 0) {
    const std::int64_t batches = std::max<std::int64_t>(1, epochs) * dataset.samples() / batch_size;
    steps = std::max<std::int64_t>(1, batches / trainer.accumulate);
  }
  trainer.schedule.total_steps = steps;
  trainer.options_digest = digest();
  MEZZO_ASSIGN_OR_RETURN(const auto session, runtime::Trainer::create(*executor, dataset, trainer));
  if (!resume.empty()) MEZZO_RETURN_IF_ERROR(session->resume(resume));

  std::error_code error;
  fs::create_directories(out, error);
  if (error) return invalid_argument("--out '" + out + "': " + error.message());
  const std::string metrics_path = (fs::path(out) / "metrics.jsonl").string();
  MEZZO_ASSIGN_OR_RETURN(auto metrics, resume.empty() ? runtime::MetricsWriter::create(metrics_path)
                                                      : runtime::MetricsWriter::resume(metrics_path, session->steps_done()));
  if (!json) std::printf("training %zu parameters of %s in %s, %d threads\n", compiled.trained.size(), compiled.records.model.c_str(), compiled.records.precision.c_str(), trainer.threads);
  auto progress = runtime::ProgressReporter::for_stderr(steps, trainer.loss_scale.mode != runtime::LossScaleMode::kOff);
  const std::string checkpoint = (fs::path(out) / "checkpoint").string();
  std::vector<double> step_ms;
  step_ms.reserve(static_cast<std::size_t>(steps));
  double elapsed_s = 0;
  float last_loss = std::numeric_limits<float>::quiet_NaN();
  while (session->steps_done() < steps) {
    StatusOr<runtime::StepMetrics> step = session->step();
    if (!step.ok()) {
      progress.finish();
      return step.status();
    }
    MEZZO_RETURN_IF_ERROR(metrics.write(*step));
    step_ms.push_back(step->step_ms);
    elapsed_s += step->step_ms / 1000;
    last_loss = step->loss;
    progress.update({step->step, static_cast<double>(step->loss), static_cast<double>(session->loss_scaler().scale()), session->skipped_steps(),
                     static_cast<std::int64_t>(step_ms.size()) * batch_size * trainer.accumulate, elapsed_s});
    if (save_every > 0 && step->step % save_every == 0 && step->step < steps) MEZZO_RETURN_IF_ERROR(session->save(checkpoint));
  }
  progress.finish();
  MEZZO_RETURN_IF_ERROR(session->save(checkpoint));
  return finish(*executor, *session, compiled, step_ms, last_loss);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void print_profile(const runtime::Executor& executor) {
  std::map<std::string, std::pair<double, std::uint64_t>> by_kind;
  double total = 0;
  for (const runtime::StepProfile& row : executor.profile()) {
    auto& [ms, count] = by_kind[row.op + "  " + row.implementation];
    ms += row.total_ms;
    count += row.runs;
    total += row.total_ms;
  }
  std::vector<std::pair<double, std::string>> rows;
  for (const auto& [name, cost] : by_kind) rows.emplace_back(cost.first, name);
  std::sort(rows.rbegin(), rows.rend());
  for (const auto& [ms, name] : rows) std::printf("%6.1f %%  %9.2f ms  %s\n", 100 * ms / total, ms, name.c_str());
}

// summary.json, and the same for people.
Status TrainCommand::finish(runtime::Executor& executor, runtime::Trainer& session, const Compiled& compiled,
                            const std::vector<double>& step_ms, float last_loss) {
  nlohmann::json summary;
  summary["model"] = compiled.records.model;
  summary["precision"] = compiled.records.precision;
  summary["steps"] = session.steps_done();
  summary["skipped_steps"] = session.skipped_steps();
  if (std::isfinite(last_loss)) summary["final_loss"] = last_loss;
  summary["step_ms_median"] = median(step_ms);
  summary["trained"] = compiled.trained;
  std::int64_t casts = 0;
  for (const CastDecision& cast : compiled.records.casts) casts += cast.ahead_of_time ? 0 : 1;
  summary["casts_inserted"] = casts;
  summary["planned_bytes"] = executor.memory().arena_bytes;
  summary["workspace_bytes"] = executor.memory().workspace_bytes;
  summary["activation_bytes"] = compiled.records.planned_peak_bytes;
  summary["activation_live_bytes"] = compiled.records.live_bytes;
  if (!eval_data.empty()) {
    MEZZO_ASSIGN_OR_RETURN(const runtime::Evaluation evaluation, session.evaluate(eval_data));
    summary["eval_loss"] = evaluation.loss;
    if (evaluation.accuracy) summary["eval_accuracy"] = *evaluation.accuracy;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  summary["measured_peak_bytes"] = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  MEZZO_RETURN_IF_ERROR(write_file((fs::path(out) / "summary.json").string(), summary.dump(2) + "\n"));
  if (json) {
    std::printf("%s\n", summary.dump(2).c_str());
    return ok_status();
  }
  std::printf("final loss %s, %.3g ms per step, %lld skipped\n", format_number(last_loss).c_str(), median(step_ms),
              static_cast<long long>(session.skipped_steps()));
  if (summary.contains("eval_accuracy")) {
    std::printf("held-out loss %.4f, accuracy %.2f %%\n", summary["eval_loss"].get<double>(), 100 * summary["eval_accuracy"].get<double>());
  }
  std::printf("memory planned %s + workspace %s, process peak %s\n", format_bytes(executor.memory().arena_bytes).c_str(),
              format_bytes(executor.memory().workspace_bytes).c_str(), format_bytes(static_cast<std::uint64_t>(usage.ru_maxrss) * 1024).c_str());
  std::printf("wrote %s/metrics.jsonl, %s/checkpoint, %s/summary.json\n", out.c_str(), out.c_str(), out.c_str());
  if (profile) print_profile(executor);
  return ok_status();
}

}  // namespace

Work add_train(CLI::App& app) {
  auto command = std::make_shared<TrainCommand>();
  command->add_options(app);
  return [command] { return command->run(); };
}

}  // namespace mezzo::cli
