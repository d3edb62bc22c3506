#include "tools/mezzo/train_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "compiler/support/text.h"
#include "passes/precision/policy_words.h"
#include "tools/mezzo/option_checks.h"

namespace mezzo::cli {
namespace {

// Options that may differ between a run and its continuation, or that digest() has in another form.
// What only a device takes is among them: a run goes on where there is none.
constexpr std::array<std::string_view, 24> kNotCompared = {
    "model",   "data",   "eval-data", "steps",      "epochs",     "out",
    "resume",  "config", "threads",   "save-every", "profile",    "save-gradients",
    "json",    "device", "tf32",      "tune",       "cuda-graph", "help",
    "dump-to", "preset", "policy",    "no-shuffle", "precision",  "export-checkpoint"};

// "0.10" and "1e-1" are one number.
std::string normal_form(const std::string& text) {
  double number = 0;
  char rest = 0;
  return std::sscanf(text.c_str(), "%lf%c", &number, &rest) == 1 ? format_number(number) : text;
}

// Presets for models that are only run lower what training needs in FP32.
Status check_preset(const std::string& preset) {
  if (preset != "inference") return ok_status();
  return invalid_argument(
      "--preset inference is for models that are only run. Hint: train with default, torch-amp, "
      "apex-o1, apex-o2 or keras-mixed_float16");
}

}  // namespace

void TrainOptions::add_to(CLI::App& app) {
  app_ = &app;
  app.add_option("model", model,
                 "ONNX model with its loss as an output, or with --loss; or the folder of ONNX "
                 "Runtime's training artifacts")
      ->required()
      ->type_name("MODEL");
  add_data_options(app);
  loss.add_to(app);
  artifacts.add_to(app);
  add_output_options(app);
  update.add_to(app, trainer);
  schedule_.add_to(app, trainer.schedule);
  policy.add_to(app, /*takes_fp32=*/true, /*has_io=*/false);
  scale_.add_to(app, trainer);
  app.option_defaults()->group("Other");
  app.add_option(
         "--config", config_,
         "Options from a JSON file, keys without dashes: {\"lr\": 0.1}; those given here go first")
      ->type_name("JSON");
  app.add_option("--seed", trainer.seed, "Of shuffling and dropout")
      ->type_name("N")
      ->check(whole_number(0))
      ->capture_default_str();
  device.add_to(app);
  app.add_option("--cuda-graph", cuda_graph_,
                 "With --device cuda: launch a step as one graph, or kernel by kernel")
      ->type_name("on|off")
      ->check(one_of({"on", "off"}))
      ->capture_default_str();
  threads.add_to(app);
  dims.add_to(app);
  dump.add_to(app);
}

void TrainOptions::add_data_options(CLI::App& app) {
  app.option_defaults()->group("Data and model");
  app.add_option("--data", data, "One array per graph input, samples along the first axis")
      ->required()
      ->type_name("NPZ");
  app.add_option("--batch-size", batch_size, "Samples per micro-batch")
      ->required()
      ->type_name("N")
      ->check(whole_number(1));
  app.add_flag("--no-shuffle", no_shuffle, "Take samples in file order, wrapped around");
  CLI::Option* by_steps =
      app.add_option("--steps", steps, "Optimizer steps")->type_name("N")->check(whole_number(1));
  app.add_option("--epochs", epochs, "Passes over the data, instead of --steps (default: 1)")
      ->type_name("N")
      ->check(whole_number(1))
      ->excludes(by_steps);
  app.add_option("--eval-data", eval_data, "Evaluate on these in FP32 after training")
      ->type_name("NPZ");
  app.add_flag("--initialize", initialize,
               "Start from what the model's initialization graph computes");
  app.add_option("--loss-output", training.loss_output,
                 "Output to minimise (default: the only scalar)")
      ->type_name("NAME");
  repeatable(app.add_option("--freeze", training.freeze,
                            "Do not train initializers whose name matches; repeatable"))
      ->type_name("REGEX")
      ->check(regular_expression());
  repeatable(app.add_option("--train", training.train, "Train these in any case; repeatable"))
      ->type_name("REGEX")
      ->check(regular_expression());
}

void TrainOptions::add_output_options(CLI::App& app) {
  app.option_defaults()->group("Output");
  app.add_option("--out", out, "Folder for metrics.jsonl, summary.json and checkpoint/")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--resume", resume, "Checkpoint folder to continue from")->type_name("DIR");
  app.add_option("--save-every", save_every, "Also save the checkpoint every N steps")
      ->type_name("N")
      ->check(whole_number(1));
  app.add_option("--save-gradients", trainer.save_gradients_step,
                 "Write the gradients of this step to gradients_STEP.npz")
      ->type_name("STEP")
      ->check(whole_number(1));
  app.add_flag("--json", json, "Print the summary as JSON");
  app.add_flag("--profile", profile, "Print what each kind of operator costs");
}

ModelTrainingOptions TrainOptions::own_training() const {
  return {!loss.given() && training.loss_output.empty(), initialize};
}

StatusOr<std::vector<runtime::ParameterGroup>> TrainOptions::groups_of(
    const passes::TrainingRecipe& recipe, const std::vector<std::string>& trained) const {
  if (!update.rules().empty()) {
    return invalid_argument(model +
                            ": --group: the model's training information sets the "
                            "optimizers. Hint: --optimizer NAME sets it aside");
  }
  const auto number = [&](const char* option, double value) {
    return given.count(option) > 0 ? std::optional(value) : std::nullopt;
  };
  auto groups = optimizer_groups(recipe, number("--lr", trainer.optimizer.lr),
                                 number("--weight-decay", trainer.optimizer.weight_decay));
  if (!groups.ok()) return groups.status().with_context(model);
  for (runtime::ParameterGroup& group : *groups) {
    std::erase_if(group.parameters, [&](const std::string& name) {
      return std::find(trained.begin(), trained.end(), name) == trained.end();
    });
  }
  std::erase_if(*groups, [](const auto& group) { return group.parameters.empty(); });
  return groups;
}

Status TrainOptions::read() {
  MEZZO_RETURN_IF_ERROR(loss.check());
  if (loss.given() && !training.loss_output.empty()) {
    return invalid_argument("--loss-output: names a loss that the model has, and --loss adds one");
  }
  MEZZO_RETURN_IF_ERROR(check_preset(policy.preset));
  for (const CLI::Option* option : app_->get_options()) {
    if (option->count() > 0) given.insert(option->get_name());
  }
  const bool model_may_choose =
      given.count("--optimizer") == 0 && may_have_artifacts(model, artifacts);
  MEZZO_RETURN_IF_ERROR(update.read(trainer, model_may_choose));
  MEZZO_RETURN_IF_ERROR(schedule_.read(trainer.schedule));
  trainer.schedule.base_lr = trainer.optimizer.lr;
  // What is wrong with a policy file is no fault of the usage: compiling will say it.
  const StatusOr<passes::PrecisionPolicy> chosen = policy.to_policy();
  MEZZO_RETURN_IF_ERROR(
      scale_.read(chosen.ok() && passes::precision_word(*chosen) == "fp16", trainer));
  trainer.threads = threads.count();
  trainer.graphs = cuda_graph_ == "on" && !profile;  // single steps are what is measured
  trainer.out = out;
  trainer.options_digest = digest();
  trainer.options = given_options();
  return ok_status();
}

// By name, those that are not at their defaults.
std::map<std::string, std::string> TrainOptions::given_options() const {
  std::map<std::string, std::string> given;
  for (const CLI::Option* option : app_->get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (std::find(kNotCompared.begin(), kNotCompared.end(), name) != kNotCompared.end()) continue;
    std::string value;
    for (const std::string& result : option->results())
      value += (value.empty() ? "" : " ") + normal_form(result);
    if (value != normal_form(option->get_default_str())) given.emplace(name, value);
  }
  return given;
}

std::string TrainOptions::digest() const {
  const runtime::OptimizerGroup& group = trainer.optimizer;
  std::string text = std::filesystem::path(model).filename().string();
  for (const std::string& word : {policy.describe(), update.optimizer(), schedule_.name(),
                                  std::to_string(batch_size), std::to_string(trainer.accumulate)}) {
    text += " " + word;
  }
  const std::array numbers = {group.lr,    group.momentum, group.weight_decay, group.beta1,
                              group.beta2, group.eps,      trainer.clip_norm,  trainer.clip_value};
  for (const double number : numbers) text += " " + format_number(number);
  if (loss.given()) text += " " + loss.describe();
  return text;
}

}  // namespace mezzo::cli
