#include "tools/mezzo/optimizer_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>

#include "compiler/support/text.h"
#include "tools/mezzo/option_checks.h"

namespace mezzo::cli {
namespace {

// A number, or "none" for no limit.
Status parse_scale_limit(const std::string& text, double& limit) {
  limit = std::numeric_limits<double>::infinity();
  char rest = 0;
  if (text == "none" || (std::sscanf(text.c_str(), "%lf%c", &limit, &rest) == 1 && limit > 0))
    return ok_status();
  return invalid_argument("expected a number above 0 or none, got '" + printable(text) + "'");
}

CLI::Option* add_number(CLI::App& app, const char* name, double& value, const char* help) {
  return app.add_option(name, value, help)
      ->type_name("F")
      ->check(number_from(0))
      ->capture_default_str();
}

}  // namespace

void UpdateOptions::add_to(CLI::App& app, runtime::TrainerOptions& trainer) {
  app.option_defaults()->group("Optimizer");
  runtime::OptimizerGroup& group = trainer.optimizer;
  app.add_option("--optimizer", optimizer_, "Formulas are PyTorch's; lamb is the paper's")
      ->type_name("NAME")
      ->check(one_of(runtime::optimizer_names()))
      ->capture_default_str();
  add_number(app, "--lr", group.lr, "Learning rate");
  add_number(app, "--weight-decay", group.weight_decay,
             "Added to the gradient; with adamw and lamb to the update");
  add_kind_options(app, group);
  add_group_options(app);
  add_number(app, "--clip-norm", trainer.clip_norm, "Limit of the global gradient norm; 0: none");
  add_number(app, "--clip-value", trainer.clip_value, "Limit of every gradient element; 0: none");
  app.add_option("--accumulate", trainer.accumulate, "Micro-batches per optimizer step")
      ->type_name("N")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--ema-decay", trainer.average_decay,
                 "Keep a moving average of the weights, evaluate it too and save it; 0: none")
      ->type_name("F")
      ->check(number_from_below(0, 1))
      ->capture_default_str();
}

// What only some optimizers know.
void UpdateOptions::add_kind_options(CLI::App& app, runtime::OptimizerGroup& group) {
  const auto of_kind = [&](const char* key, CLI::Option* option) {
    kind_options_.emplace_back(key, option);
    return option;
  };
  of_kind("momentum", app.add_option("--momentum", group.momentum, "Of sgd")
                          ->type_name("F")
                          ->check(number_from_below(0, 1))
                          ->capture_default_str());
  of_kind("dampening", app.add_option("--dampening", group.dampening, "Of sgd's momentum")
                           ->type_name("F")
                           ->check(number_from_below(0, 1))
                           ->capture_default_str());
  of_kind("nesterov", app.add_flag("--nesterov", group.nesterov, "Nesterov's form of momentum"));
  of_kind("betas", app.add_option("--betas", betas_, "Of adam, adamw and lamb (default: 0.9,0.999)")
                       ->type_name("A,B")
                       ->check(accepted_by([](const std::string& text) {
                         double beta1 = 0, beta2 = 0;
                         return parse_betas(text, beta1, beta2);
                       })));
  eps_option_ = of_kind(
      "eps",
      app.add_option("--eps", eps_, "Of all but sgd (default: 1e-8; lamb: 1e-6; adagrad: 1e-10)")
          ->type_name("F")
          ->check(number_from(0)));
  of_kind("adamw-form",
          app.add_option("--adamw-form", form_,
                         "huggingface: eps beside the uncorrected root, decay after the update")
              ->type_name("NAME")
              ->check(one_of({"pytorch", "huggingface"}))
              ->capture_default_str());
  of_kind("lr-decay", add_number(app, "--lr-decay", group.lr_decay, "Of adagrad"));
  of_kind("initial-accumulator", add_number(app, "--initial-accumulator", group.initial_accumulator,
                                            "What adagrad's sum of squares starts from"));
}

void UpdateOptions::add_group_options(CLI::App& app) {
  repeatable(
      app.add_option("--group", group_texts_,
                     "Settings of parameters whose name matches, as "
                     "'^head\\.:lr=0.01,weight-decay=0', the rest as above; keys: optimizer, "
                     "instance, lr, lr-scale, frozen and the names above; the first "
                     "--group that matches counts; repeatable"))
      ->type_name("REGEX:KEY=VALUE,...")
      ->check(accepted_by([](const std::string& text) { return GroupRule::parse(text).status(); }));
  app.add_flag("--no-decay-norms-biases", no_decay_,
               "No weight decay of normalisations, biases and other vectors, unless a --group sets "
               "it");
}

Status UpdateOptions::read(runtime::TrainerOptions& trainer, bool model_may_choose) {
  runtime::OptimizerGroup& base = trainer.optimizer;
  MEZZO_ASSIGN_OR_RETURN(base.kind, runtime::parse_optimizer(optimizer_));
  base.eps = eps_option_->count() > 0 ? eps_ : runtime::default_eps(base.kind);
  base.adamw_form =
      form_ == "huggingface" ? runtime::AdamWForm::kHuggingFace : runtime::AdamWForm::kPyTorch;
  if (!betas_.empty()) MEZZO_RETURN_IF_ERROR(parse_betas(betas_, base.beta1, base.beta2));
  rules_.clear();
  for (const std::string& text : group_texts_) {
    MEZZO_ASSIGN_OR_RETURN(GroupRule rule, GroupRule::parse(text));
    MEZZO_RETURN_IF_ERROR(rule.apply(base, eps_option_->count() > 0).status());
    rules_.push_back(std::move(rule));
  }
  if (Status status = runtime::check_group(base); !status.ok())
    return invalid_argument("--" + status.message());
  return model_may_choose ? ok_status() : check_used(base);
}

// An option for another optimizer than those in use is most likely a slip.
Status UpdateOptions::check_used(const runtime::OptimizerGroup& base) const {
  std::vector<std::string> kinds = {std::string(runtime::optimizer_name(base.kind))};
  for (const GroupRule& rule : rules_) {
    if (const auto kind = rule.settings.find("optimizer"); kind != rule.settings.end())
      kinds.push_back(kind->second);
  }
  for (const auto& [name, option] : kind_options_) {
    if (option->count() == 0) continue;
    const std::string& key = name;  // bindings cannot be captured
    const bool used = std::any_of(kinds.begin(), kinds.end(),
                                  [&](const std::string& kind) { return knows(kind, key); });
    if (!used) return invalid_argument("--" + key + ": " + join(kinds, " and ") + " has none");
  }
  return ok_status();
}

StatusOr<std::vector<runtime::ParameterGroup>> UpdateOptions::groups(
    const runtime::OptimizerGroup& base, ParameterNames names) const {
  if (!no_decay_) names.undecayed.clear();
  return assign_groups(rules_, base, eps_option_->count() > 0, names);
}

void ScheduleOptions::add_to(CLI::App& app, runtime::LrScheduleOptions& schedule) {
  app.option_defaults()->group("Learning rate schedule");
  app.add_option("--schedule", schedule_, "Shape of the learning rate over the steps")
      ->type_name("NAME")
      ->check(one_of(runtime::lr_schedule_names()))
      ->capture_default_str();
  app.add_option("--warmup-steps", schedule.warmup_steps, "Steps of linear warm-up")
      ->type_name("N")
      ->check(whole_number(0))
      ->capture_default_str();
  const auto of = [&](const char* schedules, CLI::Option* option) {
    shape_options_.emplace_back(schedules, option);
    return option;
  };
  of("linear polynomial cosine warmup-cosine one-cycle",
     app.add_option("--schedule-steps", schedule.total_steps,
                    "Applied steps until the schedule's end (default: those of the run)")
         ->type_name("N")
         ->check(whole_number(1)));
  of("linear polynomial cosine warmup-cosine",
     app.add_option("--lr-end-factor", schedule.min_factor,
                    "Where linear, polynomial and cosine end, as a share of --lr")
         ->type_name("F")
         ->check(number_from(0))
         ->capture_default_str());
  of("polynomial", app.add_option("--lr-power", schedule.power, "Of polynomial")
                       ->type_name("F")
                       ->check(number_above(0))
                       ->capture_default_str());
  of("step", app.add_option("--lr-step-size", schedule.step_size,
                            "Steps between two falls of the step schedule")
                 ->type_name("N")
                 ->check(whole_number(1)));
  of("step",
     app.add_option("--lr-gamma", schedule.gamma, "What the rate is multiplied by at each fall")
         ->type_name("F")
         ->check(number_from(0))
         ->capture_default_str());
  of("one-cycle", app.add_option("--lr-rise", schedule.pct_start, "Rising share of one-cycle")
                      ->type_name("F")
                      ->check(number_from(0))
                      ->capture_default_str());
  of("one-cycle",
     app.add_option("--lr-div", schedule.div_factor, "One-cycle starts at --lr over this")
         ->type_name("F")
         ->check(number_above(0))
         ->capture_default_str());
  of("one-cycle", app.add_option("--lr-final-div", schedule.final_div_factor,
                                 "One-cycle ends at its start over this")
                      ->type_name("F")
                      ->check(number_above(0))
                      ->capture_default_str());
}

Status ScheduleOptions::read(runtime::LrScheduleOptions& schedule) const {
  MEZZO_ASSIGN_OR_RETURN(schedule.kind, runtime::parse_lr_schedule(schedule_));
  for (const auto& [schedules, option] : shape_options_) {
    if (option->count() == 0) continue;
    if ((" " + schedules + " ").find(" " + schedule_ + " ") == std::string::npos) {
      return invalid_argument(option->get_name() + ": --schedule " + schedule_ +
                              " has none. Hint: it belongs to " + schedules);
    }
  }
  return ok_status();
}

void ScaleOptions::add_to(CLI::App& app, runtime::TrainerOptions& trainer) {
  app.option_defaults()->group("Loss scale");
  runtime::LossScalerOptions& scale = trainer.loss_scale;
  app.add_option("--loss-scale", mode_,
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
  app.add_option("--loss-scale-max", max_, "It never grows above; none: no limit")
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
  app.add_option(
         "--on-overflow", on_overflow_,
         "When gradients hold inf or NaN: skip the step, or stop (default: skip with a loss "
         "scale, else abort)")
      ->type_name("WHAT")
      ->check(one_of({"skip", "abort"}));
  app.add_option("--max-skips", scale.max_skips,
                 "Stop after this many skipped steps in a row; 0: only after 100 at a scale that "
                 "cannot fall")
      ->type_name("N")
      ->check(whole_number(0))
      ->capture_default_str();
}

Status ScaleOptions::read(bool fp16, runtime::TrainerOptions& trainer) const {
  const std::string mode = !mode_.empty() ? mode_ : fp16 ? "dynamic" : "off";
  MEZZO_RETURN_IF_ERROR(runtime::parse_loss_scale(mode, trainer.loss_scale));
  MEZZO_RETURN_IF_ERROR(parse_scale_limit(max_, trainer.loss_scale.max_scale));
  MEZZO_RETURN_IF_ERROR(runtime::validate(trainer.loss_scale));
  const bool off = trainer.loss_scale.mode == runtime::LossScaleMode::kOff;
  trainer.abort_on_overflow = on_overflow_.empty() ? off : on_overflow_ == "abort";
  return ok_status();
}

}  // namespace mezzo::cli
