// mezzo train: compiles a training plan in memory and runs it.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/support/text.h"
#include "runtime/exec/trainer.h"
#include "runtime/io/npz.h"
#include "tools/mezzo/check_data.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/compile_model.h"
#include "tools/mezzo/list_ops.h"
#include "tools/mezzo/memory_use.h"
#include "tools/mezzo/model_weights.h"
#include "tools/mezzo/output_places.h"
#include "tools/mezzo/run_folder.h"
#include "tools/mezzo/train_options.h"
#include "tools/mezzo/train_report.h"
#include "tools/mezzo/train_summary.h"

namespace mezzo::cli {
namespace {

struct TrainCommand {
  TrainOptions options;
  ModelWeights model_weights;
  TrainingModel loaded;
  ModelTraining own_training;
  passes::LossOptions loss;       // that is added to the graph
  ResidentBytes resident_before;  // when the executor was made

  Status run();

 private:
  Status load();
  StatusOr<Compiled> compile(const runtime::NpzFile& arrays);
  void print_start(const Compiled& compiled) const;
  StatusOr<std::int64_t> steps_of_epochs(std::int64_t samples) const;
  StatusOr<runtime::Dataset> open_data(const proto::Plan& plan);
  Status train(const Compiled& compiled, runtime::Executor& executor, runtime::Trainer& session,
               RunFolder& folder);
  std::int64_t next_stop(std::int64_t done) const;
  Status stopped(runtime::Trainer& session, const Status& why, runtime::MetricsWriter& metrics,
                 const RunFolder& folder) const;
};

// What can be wrong is found in the order of what it costs to find it: before training starts,
// every file has been read and the output folder proved writable.
Status TrainCommand::run() {
  MEZZO_ASSIGN_OR_RETURN(const runtime::NpzFile arrays, runtime::NpzFile::open(options.data));
  if (!options.eval_data.empty())
    MEZZO_RETURN_IF_ERROR(runtime::NpzFile::open(options.eval_data).status());
  MEZZO_RETURN_IF_ERROR(RunFolder::check(options.out));
  MEZZO_ASSIGN_OR_RETURN(const auto device, options.device.open());
  MEZZO_RETURN_IF_ERROR(load());
  MEZZO_ASSIGN_OR_RETURN(const Compiled compiled, compile(arrays));
  // From here on memory is that of training alone: what the compiler needed does not count.
  reset_peak_resident();
  resident_before = resident_bytes();
  const runtime::ExecutorOptions executor_options{options.threads.count(), kernels::Backend::kCpu,
                                                  options.profile, device};
  MEZZO_ASSIGN_OR_RETURN(
      const auto executor,
      runtime::Executor::create(compiled.plan(), weights_of(compiled.draft), executor_options));
  tell_host_steps(*executor);
  MEZZO_ASSIGN_OR_RETURN(runtime::Dataset dataset, open_data(*compiled.plan()));
  MEZZO_ASSIGN_OR_RETURN(const auto session,
                         runtime::Trainer::create(*executor, dataset, options.trainer));
  if (loaded.artifacts && options.resume.empty())
    MEZZO_RETURN_IF_ERROR(restore_optimizer(*loaded.artifacts, *session));
  if (!options.resume.empty()) {
    MEZZO_RETURN_IF_ERROR(session->resume(options.resume));
    if (session->steps_done() >= options.steps) {
      return invalid_argument(options.resume + ": has " + std::to_string(session->steps_done()) +
                              " steps, and the run is to have " + std::to_string(options.steps) +
                              ". Hint: --steps and --epochs count from the start of the run");
    }
    const std::int64_t wanted = options.trainer.save_gradients_step;
    if (wanted > 0 && wanted <= session->steps_done()) {
      return invalid_argument("--save-gradients " + std::to_string(wanted) + ": " + options.resume +
                              " has " + std::to_string(session->steps_done()) + " steps already");
    }
  }
  const std::string& exported = options.artifacts.export_checkpoint;
  if (!exported.empty()) {
    MEZZO_RETURN_IF_ERROR(expect_different({{"--export-checkpoint", exported}},
                                           sources(options.model, {options.data})));
  }
  MEZZO_ASSIGN_OR_RETURN(RunFolder folder, RunFolder::open(options.out));
  if (!exported.empty()) MEZZO_RETURN_IF_ERROR(check_export_place(exported));
  return train(compiled, *executor, *session, folder);
}

// The model, with what its artifacts say of parameters and optimizer.
Status TrainCommand::load() {
  MEZZO_ASSIGN_OR_RETURN(loaded, load_training_model(options.model, options.artifacts));
  options.model = loaded.path;
  if (!loaded.artifacts) {
    MEZZO_ASSIGN_OR_RETURN(
        own_training, read_model_training(*loaded.model, options.model, options.own_training()));
    return options.update.check_used(options.trainer.optimizer);
  }
  if (options.loss.given()) {
    return invalid_argument(options.model +
                            ": --loss adds a loss to a graph without one, but this graph holds its "
                            "own, with its backward pass");
  }
  MEZZO_RETURN_IF_ERROR(apply_optimizer(*loaded.artifacts, options.given, options.trainer));
  MEZZO_RETURN_IF_ERROR(options.update.check_used(options.trainer.optimizer));
  options.trainer.options_digest = options.digest();
  return ok_status();
}

StatusOr<Compiled> TrainCommand::compile(const runtime::NpzFile& arrays) {
  CompileOptions compile;
  // Dimensions that the model leaves open have the data's size; batches cut the first.
  for (const runtime::ArrayInfo& array : arrays.arrays()) {
    std::vector<std::int64_t> dims = array.shape;
    if (!dims.empty()) dims[0] = options.batch_size;
    compile.input_dims.emplace(array.name, std::move(dims));
  }
  MEZZO_ASSIGN_OR_RETURN(compile.policy, options.policy.to_policy());
  MEZZO_ASSIGN_OR_RETURN(compile.dims, options.dims.parse());
  compile.training = options.training;
  compile.padding = padding_of(compile.policy);
  compile.device = options.device.kind();
  compile.batch_size = options.batch_size;
  compile.train = true;
  compile.evaluate = !options.eval_data.empty();
  compile.runner = options.dump.to_runner();
  if (own_training.recipe) {
    compile.training.loss_output = own_training.recipe->loss;
    compile.training.parameters = parameters_of(*own_training.recipe);
  }
  model_weights = ModelWeights::of(*loaded.model->graph);
  MEZZO_ASSIGN_OR_RETURN(const auto frozen,
                         frozen_patterns(options.update.rules(), model_weights.names.all));
  compile.training.freeze.insert(compile.training.freeze.end(), frozen.begin(), frozen.end());
  MEZZO_ASSIGN_OR_RETURN(
      loss, options.loss.resolve(options.data, options.batch_size, loaded.model->graph.get()));
  compile.loss = loss;
  MEZZO_ASSIGN_OR_RETURN(Compiled compiled,
                         compile_loaded(std::move(loaded.model), options.model, compile));
  std::vector<std::string> notes = own_training.notes;
  notes.insert(notes.end(), compiled.records.warnings.begin(), compiled.records.warnings.end());
  for (const std::string& note : notes)
    std::fprintf(stderr, "note: %s\n", printable(note, 2000).c_str());
  keep_named(compiled.untrained, model_weights.names.all);
  model_weights.set_trained(*compiled.plan());
  MEZZO_ASSIGN_OR_RETURN(options.trainer.groups,
                         options.update.groups(options.trainer.optimizer, model_weights.names));
  if (own_training.recipe && options.given.count("--optimizer") == 0) {
    MEZZO_ASSIGN_OR_RETURN(options.trainer.groups,
                           options.groups_of(*own_training.recipe, compiled.trained));
  }
  options.trainer.fixed = model_weights.fixed(*compiled.plan());
  return compiled;
}

StatusOr<std::int64_t> TrainCommand::steps_of_epochs(std::int64_t samples) const {
  const std::int64_t epochs = std::max<std::int64_t>(1, options.epochs);
  std::int64_t seen = 0, per_step = 0;
  if (__builtin_mul_overflow(epochs, samples, &seen) ||
      __builtin_mul_overflow(options.batch_size, options.trainer.accumulate, &per_step)) {
    return invalid_argument("--epochs " + std::to_string(epochs) + ", --batch-size " +
                            std::to_string(options.batch_size) + ", --accumulate " +
                            std::to_string(options.trainer.accumulate) +
                            ": the number of steps is too large");
  }
  return std::max<std::int64_t>(1, seen / per_step);
}

// The training data; the evaluation data is looked through as well. Completes the schedule.
StatusOr<runtime::Dataset> TrainCommand::open_data(const proto::Plan& plan) {
  runtime::DatasetOptions data;
  data.batch_size = options.batch_size;
  if (!options.eval_data.empty()) {
    data.shuffle = false;
    MEZZO_RETURN_IF_ERROR(
        runtime::Dataset::open(options.eval_data, runtime::input_expectations(plan), data)
            .status());
    MEZZO_RETURN_IF_ERROR(check_index_inputs(plan, options.eval_data));
    MEZZO_RETURN_IF_ERROR(check_masked_labels(plan, options.eval_data, loss));
  }
  data.shuffle = !options.no_shuffle;
  data.seed = options.trainer.seed;
  MEZZO_ASSIGN_OR_RETURN(
      runtime::Dataset dataset,
      runtime::Dataset::open(options.data, runtime::input_expectations(plan), data));
  MEZZO_RETURN_IF_ERROR(check_index_inputs(plan, options.data));
  MEZZO_RETURN_IF_ERROR(check_masked_labels(plan, options.data, loss));
  if (options.steps == 0) {
    MEZZO_ASSIGN_OR_RETURN(options.steps, steps_of_epochs(dataset.samples()));
  }
  if (options.trainer.schedule.total_steps == 0)
    options.trainer.schedule.total_steps = options.steps;
  if (options.trainer.save_gradients_step > options.steps) {
    return invalid_argument("--save-gradients " +
                            std::to_string(options.trainer.save_gradients_step) + ": the run has " +
                            std::to_string(options.steps) + " steps");
  }
  return dataset;
}

// A run may come to its end and have learned nothing.
void warn_if_idle(const runtime::Trainer& session, float last_loss) {
  for (const runtime::OptimizerProgress& optimizer : session.optimizers()) {
    if (optimizer.applied_steps > 0) continue;
    std::fprintf(stderr, "note: %s skipped every step: its weights are as at the start\n",
                 printable(optimizer.name).c_str());
  }
  if (!std::isfinite(last_loss)) std::fprintf(stderr, "note: the last step's loss is not finite\n");
}

Status TrainCommand::train(const Compiled& compiled, runtime::Executor& executor,
                           runtime::Trainer& session, RunFolder& folder) {
  // The metrics of an earlier run are touched only once the first step has gone well.
  std::optional<runtime::MetricsWriter> metrics;
  const std::string metrics_path = folder.file("metrics.jsonl");
  const std::int64_t first = session.steps_done();
  const bool scales = options.trainer.loss_scale.mode != runtime::LossScaleMode::kOff;
  if (!options.json) {
    print_start(compiled);
    std::fflush(stdout);  // before what follows on standard error
  }
  auto progress = runtime::ProgressReporter::for_stderr(options.steps, scales);
  std::vector<double> step_ms;
  step_ms.reserve(static_cast<std::size_t>(std::min<std::int64_t>(options.steps - first, 1 << 16)));
  double elapsed_s = 0;
  float last_loss = std::numeric_limits<float>::quiet_NaN();
  while (session.steps_done() < options.steps) {
    const StatusOr<runtime::StepMetrics> step = session.step(next_stop(session.steps_done()));
    if (!step.ok()) {
      progress.finish();
      if (metrics && session.last_step().step == session.steps_done())
        return stopped(session, step.status(), *metrics, folder);
      return step.status().with_context(options.model);
    }
    if (!metrics) {
      MEZZO_ASSIGN_OR_RETURN(metrics, options.resume.empty()
                                          ? runtime::MetricsWriter::create(metrics_path)
                                          : runtime::MetricsWriter::resume(metrics_path, first));
      folder.keep();
    }
    MEZZO_RETURN_IF_ERROR(metrics->write(*step));
    step_ms.push_back(step->step_ms);
    elapsed_s += step->step_ms / 1000;
    last_loss = step->loss;
    const auto done = static_cast<std::int64_t>(step_ms.size());
    progress.update({step->step, static_cast<double>(step->loss),
                     static_cast<double>(session.loss_scaler().scale()), session.skipped_steps(),
                     done * options.batch_size * options.trainer.accumulate, elapsed_s});
    const bool due = step->step == next_stop(step->step - 1) && step->step < options.steps;
    if (due) MEZZO_RETURN_IF_ERROR(session.save(folder.checkpoint()));
  }
  progress.finish();
  warn_if_idle(session, last_loss);
  if (options.trainer.graphs && !session.why_no_graph().empty()) {
    std::fprintf(stderr, "note: steps were launched kernel by kernel, not as a graph: %s\n",
                 printable(session.why_no_graph(), 2000).c_str());
  }
  MEZZO_RETURN_IF_ERROR(session.save(folder.checkpoint()));
  if (loaded.artifacts) {
    const std::string& named = options.artifacts.export_checkpoint;
    MEZZO_RETURN_IF_ERROR(export_checkpoint(*loaded.artifacts, executor, session,
                                            named.empty() ? folder.file("ort_checkpoint") : named));
  }
  return finish_run(
      {options, compiled, executor, session, resident_before, std::move(step_ms), last_loss},
      folder);
}

// The next step after which a checkpoint is saved: the last, or one of every --save-every.
std::int64_t TrainCommand::next_stop(std::int64_t done) const {
  if (options.save_every <= 0) return options.steps;
  const std::int64_t left = options.save_every - done % options.save_every;
  return left < options.steps - done ? done + left : options.steps;
}

// Training cannot go on; the weights are those of the step before, and worth keeping.
Status TrainCommand::stopped(runtime::Trainer& session, const Status& why,
                             runtime::MetricsWriter& metrics, const RunFolder& folder) const {
  MEZZO_RETURN_IF_ERROR(metrics.write(session.last_step()));
  MEZZO_RETURN_IF_ERROR(session.save(folder.checkpoint()));
  return Status(why.code(),
                why.message() + " (" + folder.checkpoint() + " has the weights of before)")
      .with_context(options.model);
}

// What is trained, and in what: a parameter that is frozen by mistake is seen here.
void TrainCommand::print_start(const Compiled& compiled) const {
  const int threads = options.trainer.threads;
  std::printf("training %zu parameters of %s in %s, %d thread%s\n", compiled.trained.size(),
              compiled.records.model.c_str(), compiled.records.precision.c_str(), threads,
              threads == 1 ? "" : "s");
  if (loaded.artifacts) {
    std::printf(
        "  parameters of %s, optimizer%s: %s\n", loaded.artifacts->checkpoint_path.c_str(),
        loaded.artifacts->optimizer ? (" of " + loaded.artifacts->optimizer_path).c_str() : "",
        describe(options.trainer.optimizer).c_str());
  }
  print_groups(options.trainer.groups);
  print_untrained(compiled.untrained);
}

}  // namespace

Work add_train(CLI::App& app) {
  auto command = std::make_shared<TrainCommand>();
  command->options.add_to(app);
  app.add_flag_callback(
         "--list-ops",
         [&app] {
           const bool json = app.get_option("--json")->count() > 0;
           std::printf("%s", list_ops(json ? ListForm::kJson : ListForm::kText).c_str());
           throw CLI::Success();
         },
         "Print how every operator is differentiated, or why it is not, and exit")
      ->group("Output");
  app.callback([command] {
    const Status status = command->options.read();
    if (!status.ok()) throw CLI::ValidationError(status.message(), CLI::ExitCodes::ValidationError);
  });
  return [command] { return command->run(); };
}

}  // namespace mezzo::cli
