// One optimizer step: scaling, skipping, accumulation, clipping, gradients, frozen parameters, and
// data that is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "model_text.h"
#include "runtime/io/npz.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::IsOk;
using test::Session;
using test::SessionOptions;
using test::value_or_die;
using testing::HasSubstr;

SessionOptions adamw() {
  SessionOptions options;
  options.trainer.optimizer.kind = runtime::OptimizerKind::kAdamW;
  options.trainer.optimizer.lr = 0.01;
  options.trainer.optimizer.weight_decay = 0.1;
  options.trainer.schedule.kind = runtime::LrScheduleKind::kCosine;
  options.trainer.schedule.base_lr = 0.01;
  options.trainer.schedule.total_steps = 100;
  options.trainer.loss_scale.mode = runtime::LossScaleMode::kOff;
  return options;
}

std::string optimizer_file(Session& session) {
  EXPECT_THAT(session.trainer().save(session.file("look")), IsOk());
  return test::read_text(session.file("look/optimizer.safetensors"));
}

// A batch whose inputs leave float16's range.
SessionOptions with_overflow_in_batch(std::int64_t batch, std::int64_t elems_per_sample) {
  SessionOptions options = adamw();
  options.precision = "fp16";
  options.samples = 24;
  options.trainer.loss_scale.mode = runtime::LossScaleMode::kDynamic;
  options.edit_floats = [=](const std::string&, std::vector<float>& values) {
    const auto begin = static_cast<std::size_t>(batch * 4 * elems_per_sample);
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(elems_per_sample); ++i)
      values[i] = 7e4F;
  };
  return options;
}

TEST(SkippedStep, LeavesEverythingAsItWas) {
  SessionOptions options = with_overflow_in_batch(2, 3 * 6 * 6);
  options.classes = 10;
  const auto session = value_or_die(Session::open(test::cnn_text(), options));
  const auto before_metrics = session->steps(2);
  EXPECT_FALSE(before_metrics[0].skipped || before_metrics[1].skipped);
  ASSERT_FALSE(session->plan().states().empty());
  const std::vector<float> weights = session->all_weights();  // running statistics, too
  const std::string moments = optimizer_file(*session);

  const runtime::StepMetrics skipped = session->steps(1)[0];
  EXPECT_TRUE(skipped.skipped);
  EXPECT_EQ(skipped.step, 3);
  EXPECT_FALSE(skipped.grad_norm.has_value());
  EXPECT_EQ(skipped.loss_scale, 65536.0F);
  EXPECT_EQ(session->all_weights(), weights);
  EXPECT_TRUE(optimizer_file(*session) == moments);

  const runtime::StepMetrics next = session->steps(1)[0];
  EXPECT_FALSE(next.skipped);
  EXPECT_EQ(next.loss_scale, 32768.0F);
  EXPECT_EQ(next.lr, skipped.lr) << "the schedule must not move in a skipped step";
  EXPECT_NE(session->all_weights(), weights);
  EXPECT_EQ(session->trainer().skipped_steps(), 1);
}

// The batch after an overflow trains as if the bad one had never been there.
TEST(SkippedStep, EqualsARunWithoutTheBadBatch) {
  SessionOptions with = with_overflow_in_batch(1, 5);
  const auto bad = value_or_die(Session::open(test::mlp_text(), with));
  const auto metrics = bad->steps(3);
  ASSERT_TRUE(metrics[1].skipped);

  SessionOptions without = with;
  without.samples = 8;  // batches 0 and 2 alone
  without.edit_floats = [](const std::string&, std::vector<float>& values) {
    const std::vector<float> all = test::random_floats(24 * 5, 1001);
    std::copy_n(all.begin() + 40, 20, values.begin() + 20);
  };
  without.edit_ints = [](const std::string&, std::vector<std::int64_t>& labels) {
    const std::vector<float> all = test::random_floats(24, 1002);
    for (std::size_t i = 4; i < 8; ++i)
      labels[i] = static_cast<std::int64_t>((all[i + 4] + 1) * 1e4F) % 3;
  };
  // The scale halved in between; a power of two, so only what underflows could differ.
  without.trainer.loss_scale.init_scale = 32768;
  const auto good = value_or_die(Session::open(test::mlp_text(), without));
  const auto expected = good->steps(2);
  EXPECT_EQ(metrics[2].loss, expected[1].loss);
  EXPECT_EQ(bad->all_weights(), good->all_weights());
}

TEST(SkippedStep, DropsTheWholeAccumulationWindow) {
  SessionOptions options = with_overflow_in_batch(3, 3 * 6 * 6);  // the second half of step 2
  options.classes = 10;
  options.trainer.accumulate = 2;
  const auto session = value_or_die(Session::open(test::cnn_text(), options));
  session->steps(1);
  const std::vector<float> weights = session->all_weights();
  EXPECT_TRUE(session->steps(1)[0].skipped);
  EXPECT_EQ(session->all_weights(), weights);
  EXPECT_FALSE(session->steps(1)[0].skipped);
}

TEST(SkippedStep, AbortsWhereAsked) {
  SessionOptions options = with_overflow_in_batch(0, 5);
  options.trainer.abort_on_overflow = true;
  const auto session = value_or_die(Session::open(test::mlp_text(), options));
  EXPECT_THAT(session->trainer().step(), test::Rejects("inf or NaN"));
}

TEST(LossScale, StaticScaleChangesNothingButTheScale) {
  SessionOptions options = adamw();
  const auto plain = value_or_die(Session::open(test::mlp_text(), options));
  const auto expected = plain->steps(5);
  options.trainer.loss_scale.mode = runtime::LossScaleMode::kStatic;
  options.trainer.loss_scale.init_scale = 1024;
  const auto scaled = value_or_die(Session::open(test::mlp_text(), options));
  const auto actual = scaled->steps(5);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(actual[i].loss_scale, 1024.0F);
    // A power of two moves exponents alone: in FP32 every bit is the same.
    EXPECT_EQ(actual[i].loss, expected[i].loss);
    EXPECT_EQ(actual[i].grad_norm, expected[i].grad_norm);
  }
  EXPECT_EQ(scaled->all_weights(), plain->all_weights());
}

TEST(Accumulation, EqualsOneLargeBatch) {
  SessionOptions options = adamw();
  options.trainer.optimizer.kind = runtime::OptimizerKind::kSgd;
  options.batch_size = 8;
  const auto large = value_or_die(Session::open(test::mlp_text(), options));
  const auto expected = large->steps(3);
  options.batch_size = 4;
  options.trainer.accumulate = 2;
  const auto parts = value_or_die(Session::open(test::mlp_text(), options));
  const auto actual = parts->steps(3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(actual[i].loss, expected[i].loss, 1e-6F);
    EXPECT_NEAR(*actual[i].grad_norm, *expected[i].grad_norm, 1e-6);
  }
  const std::vector<float> a = parts->all_weights(), b = large->all_weights();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6F);
}

TEST(Clipping, LimitsTheNormOfTheUpdate) {
  SessionOptions options = adamw();
  options.trainer.optimizer.kind = runtime::OptimizerKind::kSgd;
  options.trainer.optimizer.weight_decay = 0;
  options.trainer.optimizer.lr = 1;
  options.trainer.schedule = {};
  options.trainer.schedule.base_lr = 1;
  options.trainer.clip_norm = 0.01;
  const auto session = value_or_die(Session::open(test::mlp_text(), options));
  const std::vector<float> before = session->all_weights();
  const runtime::StepMetrics step = session->steps(1)[0];
  EXPECT_GT(*step.grad_norm, 0.01) << "told before clipping";
  const std::vector<float> after = session->all_weights();
  double moved = 0;
  for (std::size_t i = 0; i < after.size(); ++i)
    moved += std::pow(static_cast<double>(after[i] - before[i]), 2);
  EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-5);
}

TEST(Clipping, LimitsEveryElement) {
  SessionOptions options = adamw();
  options.trainer.optimizer.kind = runtime::OptimizerKind::kSgd;
  options.trainer.optimizer.weight_decay = 0;
  options.trainer.optimizer.lr = 1;
  options.trainer.schedule = {};
  options.trainer.schedule.base_lr = 1;
  options.trainer.clip_value = 0.001;
  const auto session = value_or_die(Session::open(test::mlp_text(), options));
  const std::vector<float> before = session->all_weights();
  session->steps(1);
  const std::vector<float> after = session->all_weights();
  float largest = 0;
  for (std::size_t i = 0; i < after.size(); ++i)
    largest = std::max(largest, std::abs(after[i] - before[i]));
  EXPECT_NEAR(largest, 0.001F, 1e-6F);
}

// The loss of the first batch with one element of a parameter moved, nothing else.
double loss_with(const SessionOptions& options, const std::string& name, std::size_t element,
                 float by) {
  SessionOptions frozen = options;
  frozen.trainer.save_gradients_step = 0;
  const auto session = value_or_die(Session::open(test::transformer_mlp_text(), frozen));
  const int master = session->parameter(name)->master();
  session->executor().data_as<float>(master)[element] += by;
  return static_cast<double>(session->steps(1)[0].loss);
}

// The model is smooth: a kink (Relu) would spoil differences.
TEST(SavedGradients, EqualFiniteDifferences) {
  SessionOptions options = adamw();
  options.trainer.save_gradients_step = 1;
  options.trainer.loss_scale.mode = runtime::LossScaleMode::kStatic;
  options.trainer.loss_scale.init_scale = 4096;  // what is saved is unscaled
  options.backend = kernels::Backend::kReference;
  const auto session = value_or_die(Session::open(test::transformer_mlp_text(), options));
  session->steps(1);
  const auto file = value_or_die(runtime::NpzFile::open(session->file("gradients_1.npz")));
  EXPECT_EQ(file.names().size(), 8U);
  for (const std::string& name : file.names()) {
    const runtime::ArrayData data = value_or_die(file.read(name));
    const auto* gradient = reinterpret_cast<const float*>(data.bytes.data());
    const std::size_t elems = data.bytes.size() / sizeof(float);
    ASSERT_EQ(elems, session->master(name).size()) << name;
    float largest = 0;
    for (std::size_t i = 0; i < elems; i += 1 + elems / 6) {
      const float h = 1e-2F;
      const double slope = (loss_with(options, name, i, h) - loss_with(options, name, i, -h)) /
                           (2.0 * static_cast<double>(h));
      EXPECT_NEAR(static_cast<double>(gradient[i]), slope, 2e-4) << name << " element " << i;
      largest = std::max(largest, std::abs(gradient[i]));
    }
    EXPECT_GT(largest, 1e-3F) << name;
  }
}

TEST(Frozen, NeverChanges) {
  SessionOptions options = adamw();
  options.freeze = {"^fc1_"};
  const auto session = value_or_die(Session::open(test::mlp_text(), options));
  const auto bytes_of = [&](const std::string& name) {
    for (int i = 0; i < session->plan().tensors_size(); ++i) {
      if (session->plan().tensors(i).name() == name) return session->tensor(i);
    }
    return std::vector<float>();
  };
  const std::vector<float> frozen = bytes_of("fc1_weight");
  ASSERT_EQ(frozen.size(), 35U);
  const std::vector<float> trained = session->master("fc2_weight");
  session->steps(5);
  EXPECT_EQ(bytes_of("fc1_weight"), frozen);
  EXPECT_NE(session->master("fc2_weight"), trained);
}

TEST(WrongData, NanNamesArrayAndPlace) {
  SessionOptions options = adamw();
  options.edit_floats = [](const std::string&, std::vector<float>& values) {
    values[17] = std::numeric_limits<float>::quiet_NaN();
  };
  const auto session = Session::open(test::mlp_text(), options);
  EXPECT_THAT(session, test::Rejects("array 'x': the element at [3,2] is NaN"));
}

TEST(WrongData, LabelsOutOfRangeNameStepAndNode) {
  SessionOptions options = adamw();
  options.edit_ints = [](const std::string&, std::vector<std::int64_t>& labels) { labels[6] = 3; };
  const auto session = value_or_die(Session::open(test::mlp_text(), options));
  EXPECT_THAT(session->trainer().step(), test::IsOk());
  EXPECT_THAT(session->trainer().step(),
              test::FailsWith(StatusCode::kInvalidArgument,
                              testing::AllOf(HasSubstr("step 2: node producing 'loss'"),
                                             HasSubstr("label 3"))));
}

TEST(WrongData, BatchesOfAnotherSizeAreRefused) {
  SessionOptions options = adamw();
  const auto session = value_or_die(Session::open(test::mlp_text(), options));
  runtime::DatasetOptions data_options;
  data_options.batch_size = 5;
  auto data = value_or_die(runtime::Dataset::open(
      session->data_path(), runtime::input_expectations(session->plan()), data_options));
  EXPECT_THAT(runtime::Trainer::create(session->executor(), data, options.trainer),
              test::Rejects("batches of another size"));
}

}  // namespace
}  // namespace mezzo
