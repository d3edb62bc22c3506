// Training N steps equals training some, saving, and resuming in a new process's objects: same
// bits.
#include <gtest/gtest.h>

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
};

SessionOptions options_of(const Case& c) {
  SessionOptions options;
  options.precision = c.precision;
  options.shuffle = true;
  options.samples = 13;  // no multiple of the batch: batches span epochs
  options.trainer.optimizer.kind = c.optimizer;
  options.trainer.optimizer.lr = 0.01;
  options.trainer.optimizer.weight_decay = 0.1;
  if (c.optimizer == runtime::OptimizerKind::kSgd) options.trainer.optimizer.momentum = 0.9;
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
  }
}

INSTANTIATE_TEST_SUITE_P(All, Resume,
                         testing::Values(Case{runtime::OptimizerKind::kSgd, "fp32"},
                                         Case{runtime::OptimizerKind::kSgd, "bf16"},
                                         Case{runtime::OptimizerKind::kSgd, "fp16"},
                                         Case{runtime::OptimizerKind::kAdamW, "fp32"},
                                         Case{runtime::OptimizerKind::kAdamW, "bf16"},
                                         Case{runtime::OptimizerKind::kAdamW, "fp16"}),
                         [](const auto& info) {
                           return std::string(optimizer_name(info.param.optimizer)) + "_" +
                                  info.param.precision;
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

}  // namespace
}  // namespace mezzo
