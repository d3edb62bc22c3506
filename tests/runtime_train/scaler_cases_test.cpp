// The scenarios of scaler_cases.json (shared acceptance data; its id is each test's name):
// situations of loss scaling that went wrong in other tools, with the values that
// torch.amp.GradScaler and torch.optim of PyTorch 2.15 or NumPy gave. Here loss scaler, optimizer,
// clipping and schedule stand alone; s06, s21, s22 and s26 run through the trainer as well, in
// tests/runtime/trainer_overflow_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "compiler/support/half.h"
#include "runtime/train/loss_scaler.h"
#include "runtime/train/lr_schedule.h"
#include "runtime/train/optimizer.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_test.h"

namespace mezzo::runtime {
namespace {

using test::value_or_die;
using testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();

LossScaler scaler_with(double init, std::int64_t interval) {
  LossScalerOptions options;
  options.init_scale = init;
  options.growth_interval = interval;
  options.min_scale = 0x1p-24;
  options.max_scale = std::numeric_limits<double>::infinity();
  return value_or_die(LossScaler::create(options));
}

// Weights with an optimizer of their own.
struct Model {
  std::vector<float> w, g;
  Optimizer optimizer;

  Model(const OptimizerGroup& group, std::vector<float> weights)
      : w(std::move(weights)), g(w.size()), optimizer(make(group)) {}
  Optimizer make(const OptimizerGroup& group) {
    OptimizerParameter parameter;
    parameter.name = "w";
    parameter.elems = static_cast<std::int64_t>(w.size());
    parameter.master = w.data();
    parameter.grad = g.data();
    return value_or_die(Optimizer::create({group}, {parameter}));
  }
  void backward(std::vector<float> unscaled, float scale) {
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = unscaled[i] * scale;
  }
  // Returns whether the step was applied.
  bool step(const LossScaler& scaler, OptimizerStep settings = {}) {
    settings.inverse_scale = scaler.inverse_scale();
    const GradientStats stats = optimizer.measure();
    if (stats.found_inf(settings.inverse_scale)) return false;
    optimizer.step(stats, settings);
    return true;
  }
};

OptimizerGroup sgd(double lr) {
  OptimizerGroup group;
  group.lr = lr;
  return group;
}

TEST(ScalerCases, S01BasicSequence) {
  LossScaler scaler = scaler_with(65536, 2);
  Model model(sgd(0.5), {1.0F});
  std::vector<float> weights, scales;
  std::vector<std::int64_t> counter;
  std::vector<bool> applied;
  for (const bool overflow : {false, false, true, false, false, false}) {
    model.backward({overflow ? kInf : 1.0F}, scaler.scale());
    applied.push_back(model.step(scaler));
    scaler.update(!applied.back());
    weights.push_back(model.w[0]);
    scales.push_back(scaler.scale());
    counter.push_back(scaler.clean_steps());
  }
  EXPECT_THAT(weights, ElementsAre(0.5F, 0.0F, 0.0F, -0.5F, -1.0F, -1.5F));
  EXPECT_THAT(scales, ElementsAre(65536, 131072, 65536, 65536, 131072, 131072));
  EXPECT_THAT(counter, ElementsAre(1, 0, 0, 1, 0, 1));
  EXPECT_THAT(applied, ElementsAre(true, true, false, true, true, true));
}

// Growth stops where the scale would leave float32.
TEST(ScalerCases, S03ScaleCap) {
  LossScaler scaler = scaler_with(4.253529586511731e+37, 1);
  std::vector<double> scales;
  for (int i = 0; i < 5; ++i) {
    scaler.update(false);
    scales.push_back(scaler.scale());
  }
  EXPECT_THAT(scales,
              ElementsAre(8.507059173023462e+37, 1.7014118346046923e+38, 1.7014118346046923e+38,
                          1.7014118346046923e+38, 1.7014118346046923e+38));
}

// PyTorch's scale is 0 after 151 overflows. Ours stops at a floor (--loss-scale-min, by default 1),
// and after 100 overflows there it is an error that names the floor.
TEST(ScalerCases, S04EndlessOverflow) {
  LossScalerOptions options;
  options.init_scale = 4;
  options.min_scale = 0x1p-6;
  LossScaler scaler = value_or_die(LossScaler::create(options));
  Model model(sgd(1), {1.0F});
  std::vector<double> first;
  int error_at = 0;
  for (int i = 1; i <= 160; ++i) {
    model.backward({kInf}, scaler.scale());
    EXPECT_FALSE(model.step(scaler));
    scaler.update(true);
    if (i <= 10) first.push_back(scaler.scale());
    ASSERT_GT(scaler.scale(), 0.0F);
    ASSERT_TRUE(std::isfinite(scaler.inverse_scale()));
    if (error_at == 0 && !scaler.check_progress().ok()) error_at = i;
  }
  EXPECT_THAT(first, ElementsAre(2.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.015625,
                                 0.015625));
  EXPECT_EQ(error_at, 108);  // 8 until the floor, 100 at it
  EXPECT_THAT(scaler.check_progress(), test::Rejects("at the lowest loss scale, 0.015625"));
  EXPECT_EQ(model.w[0], 1.0F);
}

// unscale_(), step() and update() of GradScaler can be called in a wrong order. Here unscaling is
// no operation of its own: pass 1 reads gradients, pass 2 multiplies on the way, neither changes
// them, so looking twice never divides twice. Step and update are one call of the trainer. A step
// without any gradient cannot be made: nothing to train is an error before the first one.
TEST(ScalerCases, S08MisuseIsExcluded) {
  LossScaler scaler = scaler_with(8, 2000);
  Model model(sgd(1), {1.0F});
  model.backward({0.5F}, scaler.scale());
  const GradientStats once = model.optimizer.measure();  // "unscale twice"
  const GradientStats twice = model.optimizer.measure();
  EXPECT_EQ(once.norm(scaler.inverse_scale()), 0.5);
  EXPECT_EQ(twice.norm(scaler.inverse_scale()), 0.5);
  EXPECT_EQ(model.g[0], 4.0F);
  EXPECT_TRUE(model.step(scaler));
  EXPECT_EQ(model.optimizer.measure().norm(scaler.inverse_scale()), 0.5);  // "unscale after step"
  EXPECT_EQ(model.w[0], 0.5F);
  EXPECT_THAT(Optimizer::create({sgd(1)}, {}), test::Rejects("nothing to train"));
}

// Two optimizers under one scaler: each skips for its own gradients; the scale moves once, by the
// OR of both.
TEST(ScalerCases, S06TwoOptimizers) {
  const auto run = [](bool overflow_a, bool overflow_b) {
    LossScaler scaler = scaler_with(1024, 1);
    Model a(sgd(1), {1.0F}), b(sgd(1), {1.0F});
    a.backward({overflow_a ? kInf : 0.25F}, scaler.scale());
    b.backward({overflow_b ? kInf : 0.25F}, scaler.scale());
    const bool applied_a = a.step(scaler), applied_b = b.step(scaler);
    scaler.update(!applied_a || !applied_b);
    return std::vector<float>{a.w[0], b.w[0], scaler.scale()};
  };
  EXPECT_THAT(run(true, false), ElementsAre(1.0F, 0.75F, 512));
  EXPECT_THAT(run(false, true), ElementsAre(0.75F, 1.0F, 512));
  EXPECT_THAT(run(false, false), ElementsAre(0.75F, 0.75F, 2048));
  EXPECT_THAT(run(true, true), ElementsAre(1.0F, 1.0F, 512));
}

TEST(ScalerCases, S09ClipOrder) {
  LossScaler scaler = scaler_with(1024, 2000);
  Model model(sgd(0.1), {1.0F, 1.0F});
  model.backward({3.0F, 4.0F}, scaler.scale());
  EXPECT_DOUBLE_EQ(model.optimizer.measure().norm(scaler.inverse_scale()), 5.0);
  OptimizerStep settings;
  settings.clip_norm = 1.0;
  EXPECT_TRUE(model.step(scaler, settings));
  EXPECT_NEAR(model.w[0], 0.939999998F, 1e-7);
  EXPECT_NEAR(model.w[1], 0.920000017F, 1e-7);
}

// Gradients of two micro-batches are summed, each halved; the scale stands still inside the window,
// and an overflow in one micro-batch drops the window.
TEST(ScalerCases, S11Accumulation) {
  LossScaler scaler = scaler_with(256, 2);
  Model model(sgd(1), {1.0F});
  std::vector<float> weights, scales;
  std::vector<std::int64_t> counter;
  const std::vector<std::vector<float>> windows = {
      {0.5F, 0.25F}, {kInf, 0.25F}, {0.5F, 0.5F}, {0.25F, 0.25F}};
  for (const auto& window : windows) {
    model.g[0] = 0;
    for (const float gradient : window) model.g[0] += gradient / 2 * scaler.scale();
    scaler.update(!model.step(scaler));
    weights.push_back(model.w[0]);
    scales.push_back(scaler.scale());
    counter.push_back(scaler.clean_steps());
  }
  EXPECT_THAT(weights, ElementsAre(0.625F, 0.625F, 0.125F, -0.125F));
  EXPECT_THAT(scales, ElementsAre(256, 128, 128, 256));
  EXPECT_THAT(counter, ElementsAre(1, 0, 1, 0));
}

// A frozen parameter's inf is no overflow of the step.
TEST(ScalerCases, S13OnlyOwnedGradients) {
  std::vector<float> a = {1.0F}, b = {1.0F}, grad_a = {8.0F}, grad_b = {kInf};
  OptimizerGroup trained = sgd(1), frozen = sgd(1);
  frozen.frozen = true;
  OptimizerParameter first, second;
  first.elems = second.elems = 1;
  first.master = a.data();
  first.grad = grad_a.data();
  second.group = 1;
  second.master = b.data();
  second.grad = grad_b.data();
  Optimizer optimizer = value_or_die(Optimizer::create({trained, frozen}, {first, second}));
  LossScaler scaler = scaler_with(16, 2000);
  const GradientStats stats = optimizer.measure();
  ASSERT_FALSE(stats.found_inf(scaler.inverse_scale()));
  OptimizerStep settings;
  settings.inverse_scale = scaler.inverse_scale();
  optimizer.step(stats, settings);
  scaler.update(false);
  EXPECT_EQ(a[0], 0.5F);
  EXPECT_EQ(b[0], 1.0F);
  EXPECT_EQ(scaler.scale(), 16);
}

// Saved after six steps, loaded into a scaler made with other options: as if never interrupted.
TEST(ScalerCases, S14Checkpoint) {
  LossScalerOptions options;
  options.init_scale = 2048;
  options.growth_interval = 4;
  LossScaler scaler = value_or_die(LossScaler::create(options));
  EXPECT_EQ(value_or_die(LossScaler::load(scaler.save())).scale(), 2048);  // before the first step
  for (const bool overflow : {false, false, false, true, false, false}) scaler.update(overflow);
  const nlohmann::json state = scaler.save();
  EXPECT_EQ(state["scale"], 1024.0);
  EXPECT_EQ(state["growth_factor"], 2.0);
  EXPECT_EQ(state["backoff_factor"], 0.5);
  EXPECT_EQ(state["growth_interval"], 4);
  EXPECT_EQ(state["clean_steps"], 2);
  options.init_scale = 1;
  LossScaler resumed = value_or_die(LossScaler::create(options));
  resumed = value_or_die(LossScaler::load(nlohmann::json::parse(state.dump())));
  std::vector<float> scales, uninterrupted;
  for (int i = 0; i < 4; ++i) {
    resumed.update(false);
    scaler.update(false);
    scales.push_back(resumed.scale());
    uninterrupted.push_back(scaler.scale());
  }
  EXPECT_THAT(scales, ElementsAre(1024, 2048, 2048, 2048));
  EXPECT_EQ(scales, uninterrupted);
}

// The first step's overflow does not use up the first rate.
TEST(ScalerCases, S15ScheduleStandsStillOnSkips) {
  LrScheduleOptions options;
  options.kind = LrScheduleKind::kStep;
  options.base_lr = 0.1;
  options.step_size = 1;
  options.gamma = 0.5;
  const LrSchedule schedule = value_or_die(LrSchedule::create(options));
  LossScaler scaler = scaler_with(32, 2000);
  Model model(sgd(0.1), {1.0F});
  std::vector<double> used;
  std::vector<bool> applied;
  for (const bool overflow : {true, true, false, false, true, false}) {
    used.push_back(schedule.rate(model.optimizer.applied_steps()));
    model.backward({overflow ? kInf : 1.0F}, scaler.scale());
    applied.push_back(model.step(scaler));
    scaler.update(!applied.back());
  }
  EXPECT_THAT(applied, ElementsAre(false, false, true, true, false, true));
  EXPECT_THAT(used, ElementsAre(0.1, 0.1, 0.1, 0.05, 0.025, 0.025));
  EXPECT_EQ(model.optimizer.applied_steps(), 3);
}

TEST(ScalerCases, S16AdamStateOnSkip) {
  OptimizerGroup group;
  group.kind = OptimizerKind::kAdam;
  group.lr = 0.1;
  LossScaler scaler = scaler_with(256, 2000);
  Model model(group, {1.0F});
  std::vector<float> weights, scales;
  std::vector<std::int64_t> steps;
  for (const bool overflow : {false, true, true, false}) {
    model.backward({overflow ? kInf : 0.5F}, scaler.scale());
    scaler.update(!model.step(scaler));
    weights.push_back(model.w[0]);
    scales.push_back(scaler.scale());
    steps.push_back(model.optimizer.applied_steps());
  }
  EXPECT_THAT(steps, ElementsAre(1, 1, 1, 2));
  EXPECT_THAT(scales, ElementsAre(256, 128, 64, 64));
  EXPECT_NEAR(weights[0], 0.9000000357627869F, 1e-7);
  EXPECT_EQ(weights[1], weights[0]);
  EXPECT_EQ(weights[2], weights[0]);
  EXPECT_NEAR(weights[3], 0.800000011920929F, 1e-7);
  EXPECT_NEAR(model.optimizer.states()[0].values[0], 0.0949999988079071F, 1e-8);
  EXPECT_NEAR(model.optimizer.states()[1].values[0], 0.0004997500218451023F, 1e-10);
}

// 0 / (0 + 1e-8) is 0 in float32; in float16 the 1e-8 vanishes and NaN comes out.
TEST(ScalerCases, S17AdamEps) {
  for (const double eps : {1e-8, 0.0}) {
    OptimizerGroup group;
    group.kind = OptimizerKind::kAdam;
    group.eps = eps;
    Model model(group, {1.0F});
    EXPECT_TRUE(model.step(LossScaler()));
    EXPECT_EQ(model.w[0], 1.0F);
  }
}

// 1000 steps whose decay is below half of float16's last place: the master moves to PyTorch's
// 0.99898672, and its float16 copy follows.
TEST(ScalerCases, S18WeightDecayOnTheMaster) {
  std::vector<float> w = {1.0F}, g = {0.0F};
  std::vector<std::uint16_t> low = {0};
  OptimizerGroup group;
  group.kind = OptimizerKind::kAdamW;
  group.lr = 1e-4;
  group.weight_decay = 0.01;
  OptimizerParameter parameter;
  parameter.elems = 1;
  parameter.master = w.data();
  parameter.grad = g.data();
  parameter.low = low.data();
  parameter.low_dtype = DType::kFloat16;
  Optimizer optimizer = value_or_die(Optimizer::create({group}, {parameter}));
  for (int i = 0; i < 1000; ++i) optimizer.step(optimizer.measure(), {});
  EXPECT_EQ(w[0], 0.9989867210388184F);
  EXPECT_EQ(f16_to_float(low[0]), 0.9990234375F);
}

// The OR of the ranks' overflows decides everywhere.
TEST(ScalerCases, S24DistributedFoundInf) {
  const std::vector<std::vector<bool>> overflow = {{true, false, false, false},
                                                   {false, false, false, true}};
  std::vector<LossScaler> scalers(2, scaler_with(2, 2));
  std::vector<Model> models;
  for (int rank = 0; rank < 2; ++rank) models.emplace_back(sgd(1), std::vector<float>{1.0F});
  std::vector<float> scales;
  std::vector<bool> applied;
  for (std::size_t step = 0; step < 4; ++step) {
    GradientStats total;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      models[rank].backward({overflow[rank][step] ? kInf : 1.0F}, scalers[rank].scale());
      total.sum_of_squares += models[rank].optimizer.measure().sum_of_squares;
    }
    applied.push_back(!total.found_inf(scalers[0].inverse_scale()));
    for (LossScaler& scaler : scalers) scaler.update(!applied.back());
    EXPECT_EQ(scalers[0].save(), scalers[1].save());
    scales.push_back(scalers[0].scale());
  }
  EXPECT_THAT(applied, ElementsAre(false, true, true, false));
  EXPECT_THAT(scales, ElementsAre(1, 1, 2, 1));
}

// 20 losses that are NaN in FP32: PyTorch's scale halves each time, and so does ours, but they are
// counted apart and the message says so.
TEST(ScalerCases, S26NanFromData) {
  LossScaler scaler = scaler_with(65536, 2000);
  Model model(sgd(1), {1.0F});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  double scale = 65536;
  for (int i = 0; i < 22; ++i) {
    const bool bad = i > 0 && i < 21;
    model.backward({bad ? nan : 0.25F}, scaler.scale());
    EXPECT_EQ(model.step(scaler), !bad);
    scaler.update(bad, /*loss_is_finite=*/!bad);
    if (bad) scale /= 2;
    EXPECT_EQ(scaler.scale(), scale);
  }
  EXPECT_EQ(scaler.scale(), 0.0625F);
  EXPECT_EQ(scaler.nonfinite_losses(), 20);
  EXPECT_EQ(model.w[0], 0.5F);
}

// Unscaled into float32: 1.5e-8 would be 0 as float16.
TEST(ScalerCases, S29UnscaleIntoFloat32) {
  LossScaler scaler = scaler_with(65536, 2000);
  Model model(sgd(1), {0, 0, 0});
  const std::vector<float> scaled = {0.001F, 0.5F, -3.0F};
  for (std::size_t i = 0; i < 3; ++i) model.g[i] = f16_to_float(float_to_f16(scaled[i]));
  EXPECT_TRUE(model.step(scaler));
  EXPECT_NEAR(-model.w[0] / 1.5264959074556828e-08, 1.0, 1e-7);
  EXPECT_NEAR(-model.w[1] / 7.62939453125e-06, 1.0, 1e-7);
  EXPECT_NEAR(-model.w[2] / -4.57763671875e-05, 1.0, 1e-7);
}

// Every scenario has its test here or in trainer_overflow_test.
TEST(ScalerCases, AreAllHere) {
  const auto shared = test::shared_folder();
  if (!shared) GTEST_SKIP() << test::kNoSharedFolder;
  std::set<std::string> tested = {"s21", "s22"};  // need a graph: in trainer_overflow_test
  const auto* suite = testing::UnitTest::GetInstance();
  for (int i = 0; i < suite->total_test_suite_count(); ++i) {
    for (int j = 0; j < suite->GetTestSuite(i)->total_test_count(); ++j) {
      const std::string name = suite->GetTestSuite(i)->GetTestInfo(j)->name();
      if (name[0] == 'S') tested.insert("s" + name.substr(1, 2));
    }
  }
  std::ifstream file(*shared / "cases/scaler_cases.json");
  const auto all = nlohmann::json::parse(file);
  for (const auto& row : all["cases"]) {
    const std::string id = row["id"];
    EXPECT_EQ(tested.count(id.substr(0, 3)), 1U) << id;
  }
}

}  // namespace
}  // namespace mezzo::runtime
