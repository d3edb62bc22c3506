// The evaluate phase: inference semantics in FP32 on the trained parameters, and accuracy.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "model_text.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::ModelText;
using test::Session;
using test::SessionOptions;
using test::value_or_die;

SessionOptions evaluating() {
  SessionOptions options;
  options.evaluate = true;
  options.trainer.optimizer.lr = 0.1;
  options.trainer.schedule.base_lr = 0.1;
  options.trainer.loss_scale.mode = runtime::LossScaleMode::kOff;
  return options;
}

runtime::Evaluation evaluate(Session& session) {
  return value_or_die(session.trainer().evaluate(session.data_path()));
}

// Logits are three times the inputs. (All zeros and ones would count as a mask, which is not
// trained.)
std::string identity_model() {
  ModelText model;
  model.input("float[N,3] x")
      .input("int64[N] labels")
      .output("float[N,3] logits")
      .output("float loss");
  model.values("w", {3, 3}, {3, 0, 0, 0, 3, 0, 0, 0, 3});
  model.nodes("logits = MatMul(x, w)\nloss = SoftmaxCrossEntropyLoss(logits, labels)");
  return model.text();
}

TEST(Evaluate, CountsEverySampleOnceAlsoInTheLastPartialBatch) {
  SessionOptions options = evaluating();
  options.samples = 6;  // batches of 4: the second one wraps around
  options.edit_floats = [](const std::string&, std::vector<float>& x) {
    x = {3, 0, 0, 0, 3, 0, 0, 0, 3, 3, 0, 0, 0, 3, 0, 0, 0, 3};  // classes 0 1 2 0 1 2
  };
  options.edit_ints = [](const std::string&, std::vector<std::int64_t>& labels) {
    labels = {0, 1, 2, 1, 1, 0};
  };
  const auto session = value_or_die(Session::open(identity_model(), options));
  const runtime::Evaluation result = evaluate(*session);
  EXPECT_EQ(result.samples, 6);
  ASSERT_TRUE(result.accuracy.has_value());
  EXPECT_DOUBLE_EQ(*result.accuracy, 4.0 / 6.0);
  // One full batch: three hits at a loss of log(1 + 2 e^-9), one miss at 9 more.
  EXPECT_NEAR(result.loss, 9.0 / 4.0 + std::log(1 + 2 * std::exp(-9.0)), 1e-5);
}

// Token ids have the labels' type and shape, too.
TEST(Evaluate, DoesNotTakeTokenIdsForLabels) {
  ModelText model;
  model.input("int64[N,4] ids")
      .input("int64[N,4] targets")
      .output("float[N,4,3] logits")
      .output("float loss");
  model.values("table", {3, 3}, {5, 0, 0, 0, 5, 0, 0, 0, 5})
      .ints("rows", {-1, 3})
      .ints("flat", {-1});
  model.nodes(R"(
    logits = Gather(table, ids)
    scores = Reshape(logits, rows)
    labels = Reshape(targets, flat)
    loss = SoftmaxCrossEntropyLoss<ignore_index: int = -100>(scores, labels))");
  SessionOptions options = evaluating();
  options.samples = 4;
  options.edit_ints = [](const std::string& name, std::vector<std::int64_t>& values) {
    if (name == "ids") values = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
    if (name == "targets") values = {0, 0, 2, 2, 1, 1, 0, 0, -100, -100, 1, 0, 1, 1, 2, 2};
  };
  const auto session = value_or_die(Session::open(model.text(), options));
  // Right at 0, 2, 4, 6, 10, 13, 14 of the 14 places that have a label.
  EXPECT_DOUBLE_EQ(*evaluate(*session).accuracy, 7.0 / 14.0);
}

TEST(Evaluate, FindsClassesOnTheSecondAxis) {
  ModelText model;
  model.input("float[N,3,2] x")
      .input("int64[N,2] labels")
      .output("float[N,3,2] logits")
      .output("float loss");
  model.values("w", {3, 3, 1}, {3, 0, 0, 0, 3, 0, 0, 0, 3});
  model.nodes("logits = Conv(x, w)\nloss = SoftmaxCrossEntropyLoss(logits, labels)");
  SessionOptions options = evaluating();
  options.batch_size = 2;
  options.samples = 2;
  options.edit_floats = [](const std::string&, std::vector<float>& x) {
    x = {9, 0, 0, 9, 0, 0,   // classes 0 and 1
         0, 0, 0, 0, 9, 9};  // 2 and 2
  };
  options.edit_ints = [](const std::string&, std::vector<std::int64_t>& labels) {
    labels = {0, 0, 2, 2};
  };
  const auto session = value_or_die(Session::open(model.text(), options));
  EXPECT_DOUBLE_EQ(*evaluate(*session).accuracy, 3.0 / 4.0);
}

TEST(Evaluate, ReadsTheParametersBeingTrained) {
  SessionOptions options = evaluating();
  options.samples = 4;
  const auto session = value_or_die(Session::open(test::mlp_text(), options));
  for (int step = 0; step < 3; ++step) {
    const double loss = evaluate(*session).loss;
    EXPECT_NEAR(loss, static_cast<double>(session->steps(1)[0].loss), 1e-6) << "step " << step;
  }
}

TEST(Evaluate, DoesNotDisturbTraining) {
  SessionOptions options = evaluating();
  options.classes = 10;
  const auto plain = value_or_die(Session::open(test::cnn_text(), options));
  const auto watched = value_or_die(Session::open(test::cnn_text(), options));
  for (int step = 0; step < 3; ++step) {
    evaluate(*watched);
    EXPECT_EQ(watched->steps(1)[0].loss, plain->steps(1)[0].loss);
  }
  EXPECT_EQ(watched->all_weights(), plain->all_weights());
}

TEST(Evaluate, DropsNothing) {
  const auto with = value_or_die(Session::open(test::mlp_text(/*dropout=*/true), evaluating()));
  const auto without = value_or_die(Session::open(test::mlp_text(), evaluating()));
  EXPECT_EQ(evaluate(*with).loss, evaluate(*without).loss);
  EXPECT_NE(with->steps(1)[0].loss, without->steps(1)[0].loss) << "training does drop";
}

TEST(Evaluate, IsFp32WhateverTheTrainingPrecision) {
  SessionOptions options = evaluating();
  options.classes = 10;
  const auto fp32 = value_or_die(Session::open(test::cnn_text(), options));
  options.precision = "bf16";
  const auto bf16 = value_or_die(Session::open(test::cnn_text(), options));
  EXPECT_EQ(evaluate(*bf16).loss, evaluate(*fp32).loss);
}

TEST(Evaluate, NormalisesByRunningStatistics) {
  ModelText model;
  model.input("float[N,2,1,1] x")
      .input("int64[N] labels")
      .output("float[N,2] logits")
      .output("float loss");
  model.filled("scale", {2}, 1)
      .filled("bias", {2}, 0)
      .values("mean", {2}, {1, -1})
      .values("var", {2}, {4, 0.25F});
  model.nodes(R"(
    n = BatchNormalization<epsilon = 0.0>(x, scale, bias, mean, var)
    logits = Flatten(n)
    loss = SoftmaxCrossEntropyLoss(logits, labels))");
  SessionOptions options = evaluating();
  options.samples = 4;
  options.edit_floats = [](const std::string&, std::vector<float>& x) {
    x = {3, 0, 3, 0, 3, 0, 3, 0};
  };
  options.edit_ints = [](const std::string&, std::vector<std::int64_t>& labels) {
    labels = {0, 0, 0, 0};
  };
  const auto session = value_or_die(Session::open(model.text(), options));
  // (3 - 1) / 2 = 1 against (0 + 1) / 0.5 = 2.
  EXPECT_NEAR(evaluate(*session).loss, std::log(1 + std::exp(1.0)), 1e-6);
}

TEST(Evaluate, NeedsAnEvaluatePhase) {
  SessionOptions options = evaluating();
  options.evaluate = false;
  const auto session = value_or_die(Session::open(test::mlp_text(), options));
  EXPECT_THAT(session->trainer().evaluate(session->data_path()),
              test::Rejects("no evaluate phase"));
}

}  // namespace
}  // namespace mezzo
