// Parameter groups and the moving average of the weights, through the trainer.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "model_text.h"
#include "runtime/io/safetensors.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using runtime::OptimizerKind;
using runtime::ParameterGroup;
using test::IsOk;
using test::Session;
using test::SessionOptions;
using test::value_or_die;

using Floats = std::vector<float>;

SessionOptions sgd(double lr) {
  SessionOptions options;
  options.trainer.optimizer.lr = lr;
  options.trainer.schedule.base_lr = lr;
  options.trainer.loss_scale.mode = runtime::LossScaleMode::kOff;
  return options;
}

// The masters, logical, of a checkpoint's file.
std::map<std::string, Floats> tensors_of(const std::string& path) {
  std::map<std::string, Floats> result;
  const auto file = value_or_die(runtime::SafetensorsFile::open(path));
  for (const runtime::SafetensorsEntry& entry : file.entries()) {
    Floats values(entry.bytes.size() / sizeof(float));
    std::memcpy(values.data(), entry.bytes.data(), entry.bytes.size());
    result[entry.name] = values;
  }
  return result;
}

// Each parameter moves as in a run whose optimizer has its group's settings, from the same start.
TEST(Groups, EachMovesByItsOwnSettings) {
  const SessionOptions plain = sgd(0.1);
  SessionOptions adam = sgd(0.02);
  adam.trainer.optimizer.kind = OptimizerKind::kAdam;
  SessionOptions mixed = plain;
  mixed.trainer.groups = {{"^fc2_", adam.trainer.optimizer, "", {"fc2_weight", "fc2_bias"}},
                          {"fc1_bias", plain.trainer.optimizer, "", {"fc1_bias"}}};
  mixed.trainer.groups[1].settings.frozen = true;
  const auto a = value_or_die(Session::open(test::mlp_text(), plain));
  const auto b = value_or_die(Session::open(test::mlp_text(), adam));
  const auto both = value_or_die(Session::open(test::mlp_text(), mixed));
  const Floats bias = both->master("fc1_bias");
  a->steps(1);
  b->steps(1);
  both->steps(1);
  EXPECT_EQ(both->master("fc1_weight"), a->master("fc1_weight"));
  EXPECT_EQ(both->master("fc2_weight"), b->master("fc2_weight"));
  EXPECT_EQ(both->master("fc2_bias"), b->master("fc2_bias"));
  EXPECT_EQ(both->master("fc1_bias"), bias);
  const auto optimizers = both->trainer().optimizers();
  ASSERT_EQ(optimizers.size(), 2U);
  EXPECT_EQ(optimizers[0].name, "sgd");
  EXPECT_EQ(optimizers[1].name, "adam");
}

// Recorded from PyTorch 2.15: 20 steps of two micro-batches of 3 on prediction = scale tanh(x w) +
// b with AdamW(w, lr=0.02, weight_decay=0.1), SGD(b, lr=0.1, momentum=0.9, nesterov=True) and
// Adagrad(scale, lr=0.05); for each SequentialLR([LinearLR(start_factor=1/4, total_iters=3),
// PolynomialLR(total_iters=16, power=2)], milestones=[4]); clip_grad_norm_ of all at 0.4;
// AveragedModel(multi_avg_fn=get_ema_multi_avg_fn(0.9)).
TEST(Groups, ThreeOptimizersFollowPyTorch) {
  test::ModelText model;
  model.input("float[N,3] x").input("float[N,1] y").output("float loss");
  model.values("w", {3, 1}, {0.5F, -0.25F, 1.0F}).filled("scale", {1}, 1.5F);
  model.filled("b", {1}, 0.125F);
  model.nodes(R"(
    m = MatMul(x, w)
    t = Tanh(m)
    s = Mul(t, scale)
    p = Add(s, b)
    d = Sub(p, y)
    q = Mul(d, d)
    loss = ReduceMean<keepdims = 0>(q))");
  SessionOptions options = sgd(0.02);
  options.batch_size = 3;
  options.edit_floats = [](const std::string& name, Floats& values) {
    for (int i = 0; i < 12; ++i) {
      if (name == "y") values[static_cast<std::size_t>(i)] = static_cast<float>(std::cos(0.4 * i));
      for (int j = 0; name == "x" && j < 3; ++j)
        values[static_cast<std::size_t>(i * 3 + j)] =
            static_cast<float>(std::sin(0.7 * i + 1.3 * j));
    }
  };
  runtime::TrainerOptions& trainer = options.trainer;
  trainer.accumulate = 2;
  trainer.clip_norm = 0.4;
  trainer.average_decay = 0.9;
  trainer.schedule.kind = runtime::LrScheduleKind::kPolynomial;
  trainer.schedule.warmup_steps = 4;
  trainer.schedule.total_steps = 20;
  trainer.schedule.power = 2;
  trainer.optimizer.kind = OptimizerKind::kAdamW;
  trainer.optimizer.weight_decay = 0.1;
  runtime::OptimizerGroup nesterov, adagrad;
  nesterov.lr = 0.1;
  nesterov.momentum = 0.9;
  nesterov.nesterov = true;
  adagrad.kind = OptimizerKind::kAdagrad;
  adagrad.lr = 0.05;
  adagrad.eps = runtime::default_eps(adagrad.kind);
  trainer.groups = {{"b", nesterov, "", {"b"}}, {"scale", adagrad, "", {"scale"}}};
  const auto session = value_or_die(Session::open(model.text(), options));
  const auto steps = session->steps(20);
  EXPECT_NEAR(*steps.front().grad_norm, 2.0159859657287598, 1e-5);
  EXPECT_NEAR(*steps.back().grad_norm, 2.732952833175659, 1e-5);
  const auto expect_near = [](const Floats& got, const Floats& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 5e-7F) << i;
  };
  expect_near(session->master("w"), {0x1.4dfd58p-1F, -0x1.a2d626p-3F, 0x1.a421fap-1F});
  expect_near(session->master("scale"), {0x1.5b097cp+0F});
  expect_near(session->master("b"), {0x1.6da40cp-4F});
  ASSERT_THAT(session->trainer().save(session->file("c")), IsOk());
  const auto average = tensors_of(session->file("c/ema.safetensors"));
  expect_near(average.at("w"), {0x1.3b1b94p-1F, -0x1.b6379p-3F, 0x1.ba6c32p-1F});
  expect_near(average.at("scale"), {0x1.61f196p+0F});
  expect_near(average.at("b"), {0x1.aede3ap-4F});
}

TEST(Groups, AreRefusedWhereTheyMakeNoSense) {
  SessionOptions options = sgd(0.1);
  const ParameterGroup group{"g", options.trainer.optimizer, "", {"fc1_weight"}};
  options.trainer.groups = {group, group};
  EXPECT_EQ(Session::open(test::mlp_text(), options).status().code(), StatusCode::kInternal);
  options.trainer.groups = {group};
  options.trainer.groups[0].settings.momentum = 2;
  EXPECT_THAT(Session::open(test::mlp_text(), options), test::Rejects("momentum"));
  options.trainer.groups[0].settings = options.trainer.optimizer;
  options.trainer.groups[0].settings.frozen = options.trainer.optimizer.frozen = true;
  EXPECT_THAT(Session::open(test::mlp_text(), options), test::Rejects("nothing to train"));
}

// The average follows the weights by its recursion; evaluating with it is evaluating a model that
// has it for weights, in every precision and with padding.
TEST(MovingAverage, IsSavedAndEvaluated) {
  for (const std::string precision : {"fp32", "fp16", "bf16"}) {
    SessionOptions options = sgd(0.5);
    options.precision = precision;
    options.pad_multiple = 8;
    options.evaluate = true;
    options.trainer.average_decay = 0.75;
    const auto session = value_or_die(Session::open(test::mlp_text(), options));
    std::map<std::string, std::vector<double>> expected;
    for (int step = 0; step < 5; ++step) {
      session->steps(1);
      for (const proto::Parameter& parameter : session->plan().parameters()) {
        const Floats weights = session->master(parameter.name());
        std::vector<double>& average = expected[parameter.name()];
        if (step == 0) average.assign(weights.begin(), weights.end());
        for (std::size_t i = 0; i < weights.size(); ++i)
          average[i] += 0.25 * (static_cast<double>(weights[i]) - average[i]);
      }
    }
    const Floats weights = session->all_weights();
    const auto plain = value_or_die(session->trainer().evaluate(session->data_path()));
    const auto averaged = value_or_die(session->trainer().evaluate(session->data_path(), true));
    EXPECT_EQ(session->all_weights(), weights) << "swapped back";
    EXPECT_NE(plain.loss, averaged.loss);

    options.trainer.average_decay = 0;
    const auto other = value_or_die(Session::open(test::mlp_text(), options));
    for (const proto::Parameter& parameter : other->plan().parameters()) {
      auto* master = other->executor().data_as<float>(parameter.master());
      const std::vector<double>& average = expected[parameter.name()];
      for (std::size_t i = 0; i < average.size(); ++i) master[i] = static_cast<float>(average[i]);
    }
    const auto direct = value_or_die(other->trainer().evaluate(session->data_path()));
    EXPECT_NEAR(averaged.loss, direct.loss, 1e-6) << precision;

    ASSERT_THAT(session->trainer().save(session->file("c")), IsOk());
    const auto saved = tensors_of(session->file("c/ema.safetensors"));
    const auto model = tensors_of(session->file("c/model.safetensors"));
    EXPECT_EQ(saved.size(), model.size());
    EXPECT_NE(saved.at("fc2_bias"), model.at("fc2_bias"));
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(saved.at("fc2_bias")[i], expected["fc2_bias"][i], 1e-6);
  }
}

TEST(MovingAverage, ASkippedStepLeavesIt) {
  SessionOptions options = sgd(0.5);
  options.precision = "fp16";
  options.trainer.average_decay = 0.5;
  options.trainer.loss_scale.mode = runtime::LossScaleMode::kDynamic;
  options.edit_floats = [](const std::string&, Floats& values) { values[5 * 4 * 2] = 7e4F; };
  const auto session = value_or_die(Session::open(test::mlp_text(), options));
  session->steps(2);
  ASSERT_THAT(session->trainer().save(session->file("before")), IsOk());
  EXPECT_TRUE(session->steps(1).at(0).skipped);
  ASSERT_THAT(session->trainer().save(session->file("after")), IsOk());
  EXPECT_EQ(test::read_text(session->file("before/ema.safetensors")),
            test::read_text(session->file("after/ema.safetensors")));
}

}  // namespace
}  // namespace mezzo
