// Training N steps equals training some, saving, and resuming in a new process's objects: same
// bits.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model_text.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::IsOk;
using test::Rejects;
using test::Session;
using test::SessionOptions;
using test::value_or_die;

struct Case {
  runtime::OptimizerKind optimizer;
  std::string precision;
  bool groups = false;  // a second optimizer, a frozen parameter, a moving average
};

// "fc2_*" of the MLP and "bn1_*" of the CNN are another optimizer's; one of each is frozen.
void add_groups(SessionOptions& options) {
  runtime::ParameterGroup heads{"heads", options.trainer.optimizer, "heads", {}};
  heads.settings.lr = 0.003;
  heads.settings.weight_decay = 0;
  runtime::ParameterGroup others = heads;
  others.name = "others";
  others.settings.kind = runtime::OptimizerKind::kSgd;
  others.settings.momentum = 0.9;
  others.settings.dampening = 0.1;
  runtime::ParameterGroup fixed{"fixed", options.trainer.optimizer, "", {"fc1_bias", "bn1_bias"}};
  fixed.settings.frozen = true;
  heads.parameters = {"fc2_weight", "bn1_weight"};
  others.parameters = {"fc2_bias", "conv2_bias"};
  options.trainer.groups = {heads, others, fixed};
  options.trainer.average_decay = 0.9;
}

SessionOptions options_of(const Case& c) {
  SessionOptions options;
  options.precision = c.precision;
  options.shuffle = true;
  options.samples = 13;  // no multiple of the batch: batches span epochs
  options.trainer.optimizer.kind = c.optimizer;
  options.trainer.optimizer.lr = 0.01;
  options.trainer.optimizer.weight_decay = 0.1;
  if (c.optimizer == runtime::OptimizerKind::kSgd) options.trainer.optimizer.momentum = 0.9;
  if (c.optimizer == runtime::OptimizerKind::kAdagrad) {
    options.trainer.optimizer.lr_decay = 0.1;
    options.trainer.optimizer.initial_accumulator = 0.5;
  }
  if (c.groups) add_groups(options);
  options.trainer.schedule.kind = runtime::LrScheduleKind::kCosine;
  options.trainer.schedule.base_lr = 0.01;
  options.trainer.schedule.warmup_steps = 3;
  options.trainer.schedule.total_steps = 20;
  options.trainer.accumulate = 2;
  options.trainer.clip_norm = 1;
  options.trainer.seed = 7;
  options.trainer.options_digest = "d";
  options.trainer.loss_scale.mode =
      c.precision == "fp16" ? runtime::LossScaleMode::kDynamic : runtime::LossScaleMode::kOff;
  options.trainer.loss_scale.growth_interval = 3;
  options.trainer.loss_scale.max_scale =
      1e30;  // grows until it overflows: skipped steps are part of the run
  return options;
}

class Resume : public testing::TestWithParam<Case> {};

TEST_P(Resume, ContinuesBitForBit) {
  for (const std::string& model : {test::mlp_text(/*dropout=*/true), test::cnn_text()}) {
    SessionOptions options = options_of(GetParam());
    options.classes = model == test::cnn_text() ? 10 : 3;
    const auto whole = value_or_die(Session::open(model, options));
    const auto expected = whole->steps(20);

    const auto first = value_or_die(Session::open(model, options));
    first->steps(10);
    ASSERT_THAT(first->trainer().save(first->file("saved")), IsOk());
    const auto second = value_or_die(Session::open(model, options));
    ASSERT_THAT(second->trainer().resume(first->file("saved")), IsOk());
    EXPECT_EQ(second->trainer().steps_done(), 10);
    const auto actual = second->steps(10);

    ASSERT_EQ(actual.size(), 10U);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(actual[i].step, expected[10 + i].step);
      EXPECT_EQ(actual[i].loss, expected[10 + i].loss) << "step " << actual[i].step;
      EXPECT_EQ(actual[i].grad_norm, expected[10 + i].grad_norm);
      EXPECT_EQ(actual[i].lr, expected[10 + i].lr);
      EXPECT_EQ(actual[i].loss_scale, expected[10 + i].loss_scale);
      EXPECT_EQ(actual[i].skipped, expected[10 + i].skipped);
      EXPECT_EQ(actual[i].skipped_optimizers, expected[10 + i].skipped_optimizers);
    }
    EXPECT_EQ(second->all_weights(), whole->all_weights());
    if (GetParam().precision == "fp16") {
      EXPECT_GT(whole->trainer().skipped_steps(), 0) << "the run should have met an overflow";
      EXPECT_EQ(second->trainer().skipped_steps(), whole->trainer().skipped_steps());
    }
    // The files agree byte for byte, too: optimizer state is part of them.
    ASSERT_THAT(whole->trainer().save(whole->file("end")), IsOk());
    ASSERT_THAT(second->trainer().save(second->file("end")), IsOk());
    for (const char* name :
         {"end/model.safetensors", "end/optimizer.safetensors", "end/state.json"}) {
      EXPECT_TRUE(test::read_text(second->file(name)) == test::read_text(whole->file(name)))
          << name;
    }
    const char* averages = "end/ema.safetensors";
    if (GetParam().groups) {
      EXPECT_EQ(whole->trainer().optimizers().size(), 3U);
      EXPECT_TRUE(test::read_text(second->file(averages)) ==
                  test::read_text(whole->file(averages)));
    } else {
      EXPECT_FALSE(std::filesystem::exists(whole->file(averages)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Resume,
                         testing::Values(Case{runtime::OptimizerKind::kSgd, "fp32"},
                                         Case{runtime::OptimizerKind::kSgd, "bf16"},
                                         Case{runtime::OptimizerKind::kSgd, "fp16"},
                                         Case{runtime::OptimizerKind::kAdamW, "fp32"},
                                         Case{runtime::OptimizerKind::kAdamW, "bf16"},
                                         Case{runtime::OptimizerKind::kAdamW, "fp16"},
                                         Case{runtime::OptimizerKind::kAdam, "fp32"},
                                         Case{runtime::OptimizerKind::kLamb, "fp32"},
                                         Case{runtime::OptimizerKind::kLamb, "fp16"},
                                         Case{runtime::OptimizerKind::kAdagrad, "fp32"},
                                         Case{runtime::OptimizerKind::kAdagrad, "bf16"},
                                         Case{runtime::OptimizerKind::kAdamW, "fp32", true},
                                         Case{runtime::OptimizerKind::kLamb, "fp16", true}),
                         [](const auto& info) {
                           return std::string(runtime::optimizer_name(info.param.optimizer)) + "_" +
                                  info.param.precision + (info.param.groups ? "_groups" : "");
                         });

TEST(ResumeRefuses, AnotherRunsCheckpoint) {
  SessionOptions options = options_of({runtime::OptimizerKind::kSgd, "fp32"});
  const auto first = value_or_die(Session::open(test::mlp_text(), options));
  first->steps(1);
  ASSERT_THAT(first->trainer().save(first->file("saved")), IsOk());

  options.trainer.options_digest = "another";
  const auto other = value_or_die(Session::open(test::mlp_text(), options));
  EXPECT_THAT(other->trainer().resume(first->file("saved")), Rejects("other options"));

  options.trainer.options_digest = "d";
  options.trainer.options = {{"lr", "0.5"}};
  const auto faster = value_or_die(Session::open(test::mlp_text(), options));
  EXPECT_THAT(faster->trainer().resume(first->file("saved")),
              Rejects("other options (--lr: its default then, 0.5 now)"));
  options.trainer.options.clear();
  options.trainer.average_decay = 0.9;
  const auto averaging = value_or_die(Session::open(test::mlp_text(), options));
  EXPECT_THAT(averaging->trainer().resume(first->file("saved")), Rejects("moving average"));
  options.trainer.average_decay = 0;
  options.trainer.groups = {{"g", options.trainer.optimizer, "another", {"fc2_weight"}}};
  const auto two = value_or_die(Session::open(test::mlp_text(), options));
  EXPECT_THAT(two->trainer().resume(first->file("saved")), Rejects("optimizers"));
  options.trainer.groups.clear();
  options.samples = 14;
  const auto more_data = value_or_die(Session::open(test::mlp_text(), options));
  EXPECT_THAT(more_data->trainer().resume(first->file("saved")), Rejects("13 samples"));

  const auto cnn = [&] {
    options.classes = 10;
    return value_or_die(Session::open(test::cnn_text(), options));
  }();
  EXPECT_FALSE(cnn->trainer().resume(first->file("saved")).ok());
  EXPECT_FALSE(cnn->trainer().resume(first->file("nothing")).ok());
}

// As versions without groups and moving averages wrote them: the keys they did not have are left
// out.
TEST(ResumeOlder, TakesCheckpointsOfOlderVersions) {
  const SessionOptions options = options_of({runtime::OptimizerKind::kAdamW, "fp32"});
  const auto whole = value_or_die(Session::open(test::mlp_text(), options));
  whole->steps(4);
  const auto first = value_or_die(Session::open(test::mlp_text(), options));
  first->steps(2);
  ASSERT_THAT(first->trainer().save(first->file("saved")), IsOk());
  auto state = nlohmann::json::parse(test::read_text(first->file("saved/state.json")));
  state.erase("optimizers");
  state.erase("options");
  state["loss_scaler"].erase("max_skips");
  state["loss_scaler"].erase("skips_in_row");
  test::write_text(first->file("saved/state.json"), state.dump());
  const auto second = value_or_die(Session::open(test::mlp_text(), options));
  ASSERT_THAT(second->trainer().resume(first->file("saved")), IsOk());
  second->steps(2);
  EXPECT_EQ(second->all_weights(), whole->all_weights());
}

}  // namespace
}  // namespace mezzo
