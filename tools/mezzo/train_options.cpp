#include "tools/mezzo/train_options.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "compiler/support/text.h"
#include "passes/precision/policy_words.h"
#include "tools/mezzo/option_checks.h"

namespace mezzo::cli {
namespace {

// "0.9,0.999"
Status parse_betas(const std::string& text, double& beta1, double& beta2) {
  char rest = 0;
  const bool parsed = std::sscanf(text.c_str(), "%lf,%lf%c", &beta1, &beta2, &rest) == 2;
  if (parsed && beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1) return ok_status();
  return invalid_argument("expected two numbers from 0 to below 1, such as 0.9,0.999, got '" +
                          printable(text) + "'");
}

// A number, or "none" for no limit.
Status parse_scale_limit(const std::string& text, double& limit) {
  limit = std::numeric_limits<double>::infinity();
  char rest = 0;
  if (text == "none" || (std::sscanf(text.c_str(), "%lf%c", &limit, &rest) == 1 && limit > 0))
    return ok_status();
  return invalid_argument("expected a number above 0 or none, got '" + printable(text) + "'");
}

}  // namespace

void TrainOptions::add_to(CLI::App& app) {
  app.add_option("model", model, "ONNX model with its loss as an output, or with --loss")
      ->required()
      ->type_name("MODEL");
  add_data_options(app);
  loss.add_to(app);
  add_output_options(app);
  add_optimizer_options(app);
  add_schedule_options(app);
  policy.add_to(app, /*takes_fp32=*/true, /*has_io=*/false);
  add_loss_scale_options(app);
  app.option_defaults()->group("Other");
  app.add_option(
         "--config", config_,
         "Options from a JSON file, keys without dashes: {\"lr\": 0.1}; those given here go first")
      ->type_name("JSON");
  app.add_option("--seed", trainer.seed, "Of shuffling and dropout")
      ->type_name("N")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--device", device_, "Where to run")
      ->type_name("NAME")
      ->check(one_of({"cpu"}))
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

void TrainOptions::add_optimizer_options(CLI::App& app) {
  app.option_defaults()->group("Optimizer");
  runtime::OptimizerGroup& group = trainer.optimizer;
  app.add_option("--optimizer", optimizer_, "Formulas are PyTorch's")
      ->type_name("NAME")
      ->check(one_of({"sgd", "adam", "adamw"}))
      ->capture_default_str();
  const auto number = [&](const char* name, double& value, const char* help) {
    app.add_option(name, value, help)->type_name("F")->check(number_from(0))->capture_default_str();
  };
  number("--lr", group.lr, "Learning rate");
  number("--momentum", group.momentum, "Of sgd");
  app.add_flag("--nesterov", group.nesterov, "Nesterov's form of momentum");
  number("--weight-decay", group.weight_decay, "Added to the gradient; decoupled with adamw");
  app.add_option("--betas", betas_, "Of adam and adamw (default: 0.9,0.999)")
      ->type_name("A,B")
      ->check(accepted_by([](const std::string& text) {
        double beta1 = 0, beta2 = 0;
        return parse_betas(text, beta1, beta2);
      }));
  number("--eps", group.eps, "Of adam and adamw");
  number("--clip-norm", trainer.clip_norm, "Limit of the global gradient norm; 0: none");
  number("--clip-value", trainer.clip_value, "Limit of every gradient element; 0: none");
  app.add_option("--accumulate", trainer.accumulate, "Micro-batches per optimizer step")
      ->type_name("N")
      ->check(whole_number(1))
      ->capture_default_str();
}

void TrainOptions::add_schedule_options(CLI::App& app) {
  app.option_defaults()->group("Learning rate schedule");
  runtime::LrScheduleOptions& schedule = trainer.schedule;
  app.add_option("--schedule", schedule_, "Shape of the learning rate over the steps")
      ->type_name("NAME")
      ->check(one_of({"constant", "cosine", "warmup-cosine", "step", "one-cycle"}))
      ->capture_default_str();
  app.add_option("--warmup-steps", schedule.warmup_steps, "Steps of linear warm-up")
      ->type_name("N")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--lr-step-size", schedule.step_size,
                 "Steps between two falls of the step schedule")
      ->type_name("N")
      ->check(whole_number(1));
  app.add_option("--lr-gamma", schedule.gamma, "What the rate is multiplied by at each fall")
      ->type_name("F")
      ->check(number_from(0))
      ->capture_default_str();
}

void TrainOptions::add_loss_scale_options(CLI::App& app) {
  app.option_defaults()->group("Loss scale");
  runtime::LossScalerOptions& scale = trainer.loss_scale;
  app.add_option("--loss-scale", loss_scale_,
                 "dynamic, static:F or off (default: dynamic with fp16, else off)")
      ->type_name("MODE")
      ->check(accepted_by([](const std::string& text) {
        runtime::LossScalerOptions options;
        return runtime::parse_loss_scale(text, options);
      }));
  const auto number = [&](const char* name, double& value, const char* help) {
    app.add_option(name, value, help)
        ->type_name("F")
        ->check(number_above(0))
        ->capture_default_str();
  };
  number("--loss-scale-init", scale.init_scale, "At the first step");
  number("--loss-scale-growth", scale.growth_factor, "Factor after enough clean steps");
  number("--loss-scale-backoff", scale.backoff_factor, "Factor after an overflow");
  app.add_option("--loss-scale-growth-interval", scale.growth_interval,
                 "Clean steps in a row before it grows")
      ->type_name("N")
      ->check(whole_number(1))
      ->capture_default_str();
  number("--loss-scale-min", scale.min_scale, "It never falls below");
  app.add_option("--loss-scale-max", loss_scale_max_, "It never grows above; none: no limit")
      ->type_name("F|none")
      ->check(accepted_by([](const std::string& text) {
        double limit = 0;
        return parse_scale_limit(text, limit);
      }))
      ->capture_default_str();
  app.add_option("--loss-scale-hysteresis", scale.hysteresis, "Overflows in a row before it falls")
      ->type_name("N")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--on-overflow", on_overflow_,
                 "When gradients hold inf or NaN: skip the step, or stop")
      ->type_name("WHAT")
      ->check(one_of({"skip", "abort"}))
      ->capture_default_str();
}

Status TrainOptions::read() {
  MEZZO_RETURN_IF_ERROR(loss.check());
  if (loss.given() && !training.loss_output.empty()) {
    return invalid_argument("--loss-output: names a loss that the model has, and --loss adds one");
  }
  MEZZO_ASSIGN_OR_RETURN(trainer.optimizer.kind, runtime::parse_optimizer(optimizer_));
  MEZZO_ASSIGN_OR_RETURN(trainer.schedule.kind, runtime::parse_lr_schedule(schedule_));
  trainer.schedule.base_lr = trainer.optimizer.lr;
  if (!betas_.empty())
    MEZZO_RETURN_IF_ERROR(parse_betas(betas_, trainer.optimizer.beta1, trainer.optimizer.beta2));
  // What is wrong with a policy file is no fault of the usage: compiling will say it.
  const StatusOr<passes::PrecisionPolicy> chosen = policy.to_policy();
  const bool fp16 = chosen.ok() && passes::precision_word(*chosen) == "fp16";
  const std::string mode = !loss_scale_.empty() ? loss_scale_ : fp16 ? "dynamic" : "off";
  MEZZO_RETURN_IF_ERROR(runtime::parse_loss_scale(mode, trainer.loss_scale));
  MEZZO_RETURN_IF_ERROR(parse_scale_limit(loss_scale_max_, trainer.loss_scale.max_scale));
  MEZZO_RETURN_IF_ERROR(runtime::validate(trainer.loss_scale));
  trainer.abort_on_overflow = on_overflow_ == "abort";
  trainer.threads = threads.count();
  trainer.out = out;
  trainer.options_digest = digest();
  return ok_status();
}

std::string TrainOptions::digest() const {
  const runtime::OptimizerGroup& group = trainer.optimizer;
  std::string text = std::filesystem::path(model).filename().string();
  for (const std::string& word : {policy.describe(), optimizer_, schedule_,
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
