// Overflow through the trainer: which optimizer skips, what stays as it was, and what is said when
// training cannot go on. Scenarios of scaler_cases.json carry their ids; the others are in
// tests/runtime_train/scaler_cases_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "model_text.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using runtime::LossScaleMode;
using runtime::OptimizerKind;
using runtime::ParameterGroup;
using test::IsOk;
using test::ModelText;
using test::Rejects;
using test::Session;
using test::SessionOptions;
using test::value_or_die;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// loss = wa xa + wb xb: the gradients are the data. 3e38 times a loss scale over 1 is inf.
std::string two_weights_text() {
  ModelText model;
  model.input("float[N,1] xa").input("float[N,1] xb").output("float loss");
  model.filled("wa", {1}, 1.0F).filled("wb", {1}, 1.0F);
  model.nodes(R"(
    a = Mul(xa, wa)
    b = Mul(xb, wb)
    sum = Add(a, b)
    loss = ReduceMean<keepdims = 0>(sum))");
  return model.text();
}

constexpr float kHuge = 3e38F;

SessionOptions sgd_options(double lr) {
  SessionOptions options;
  options.batch_size = 1;
  options.samples = 4;
  options.trainer.optimizer.lr = lr;
  options.trainer.schedule.base_lr = lr;
  options.trainer.loss_scale.mode = LossScaleMode::kDynamic;
  options.trainer.loss_scale.init_scale = 1024;
  options.trainer.loss_scale.growth_interval = 1;
  return options;
}

// The data of two_weights_text().
void set_data(SessionOptions& options, std::vector<float> xa, std::vector<float> xb) {
  options.samples = static_cast<std::int64_t>(xa.size());
  options.edit_floats = [xa, xb](const std::string& name, std::vector<float>& values) {
    values = name == "xa" ? xa : xb;
  };
}

ParameterGroup group_of(const SessionOptions& options, const std::string& parameter,
                        const std::string& instance) {
  return {"^" + parameter + "$", options.trainer.optimizer, instance, {parameter}};
}

// One scale over two optimizers: only the one with the overflow skips; the scale halves once, and
// grows only if neither overflowed.
TEST(ScalerCases, S06TwoOptimizers) {
  struct Case {
    bool inf_a, inf_b;
    float wa, wb, scale;
  };
  for (const Case& c : {Case{true, false, 1.0F, 0.75F, 512}, Case{false, true, 0.75F, 1.0F, 512},
                        Case{false, false, 0.75F, 0.75F, 2048}, Case{true, true, 1, 1, 512}}) {
    SessionOptions options = sgd_options(1);
    set_data(options, {c.inf_a ? kHuge : 0.25F}, {c.inf_b ? kHuge : 0.25F});
    options.trainer.groups = {group_of(options, "wb", "b")};
    const auto session = value_or_die(Session::open(two_weights_text(), options));
    const runtime::StepMetrics step = session->steps(1).at(0);
    EXPECT_EQ(session->master("wa")[0], c.wa);
    EXPECT_EQ(session->master("wb")[0], c.wb);
    EXPECT_EQ(session->trainer().loss_scaler().scale(), c.scale);
    EXPECT_EQ(step.skipped, c.inf_a && c.inf_b);
    EXPECT_EQ(step.skipped_optimizers, (c.inf_a ? 1U : 0U) + (c.inf_b ? 2U : 0U));
    const auto optimizers = session->trainer().optimizers();
    ASSERT_EQ(optimizers.size(), 2U);
    EXPECT_EQ(optimizers[0].name, "sgd");
    EXPECT_EQ(optimizers[1].name, "sgd:b");
    EXPECT_EQ(optimizers[0].applied_steps, c.inf_a ? 0 : 1);
    EXPECT_EQ(optimizers[1].applied_steps, c.inf_b ? 0 : 1);
  }
}

// Groups of one optimizer skip together, as param_groups of PyTorch do.
TEST(Overflow, GroupsOfOneOptimizerSkipTogether) {
  SessionOptions options = sgd_options(1);
  set_data(options, {kHuge}, {0.25F});
  options.trainer.groups = {group_of(options, "wb", "")};
  const auto session = value_or_die(Session::open(two_weights_text(), options));
  EXPECT_TRUE(session->steps(1).at(0).skipped);
  EXPECT_EQ(session->master("wb")[0], 1.0F);
  EXPECT_EQ(session->trainer().optimizers().size(), 1U);
}

// Another kind is another optimizer; the norm that clips is that of the gradients that are applied.
TEST(Overflow, TheNormIsOfThoseThatStep) {
  SessionOptions options = sgd_options(1);
  set_data(options, {kHuge, 3.0F}, {0.25F, 4.0F});
  options.trainer.clip_norm = 0.125;
  options.trainer.groups = {group_of(options, "wb", "")};
  options.trainer.groups[0].settings.kind = OptimizerKind::kAdagrad;
  options.trainer.groups[0].settings.lr = 0;
  const auto session = value_or_die(Session::open(two_weights_text(), options));
  const auto steps = session->steps(2);
  EXPECT_DOUBLE_EQ(*steps[0].grad_norm, 0.25);
  EXPECT_DOUBLE_EQ(*steps[1].grad_norm, 5.0);
  EXPECT_NEAR(session->master("wa")[0], 1 - 0.125 * 3 / 5, 1e-6);
}

// A frozen parameter's gradient is not looked at.
TEST(ScalerCases, S13AFrozenGroupOverflows) {
  SessionOptions options = sgd_options(1);
  set_data(options, {0.5F}, {kHuge});
  options.trainer.groups = {group_of(options, "wb", "")};
  options.trainer.groups[0].settings.frozen = true;
  const auto session = value_or_die(Session::open(two_weights_text(), options));
  EXPECT_FALSE(session->steps(1).at(0).skipped);
  EXPECT_EQ(session->master("wa")[0], 0.5F);
  EXPECT_EQ(session->master("wb")[0], 1.0F);
}

// A batch of [1, inf], then one of [1, 3], made inside the graph as data with an inf is refused.
TEST(ScalerCases, S21RunningStatisticsOnOverflow) {
  ModelText model;
  model.input("float[N,1] x").output("float loss");
  model.filled("big", {}, 1e30F).filled("weight", {1}, 1.0F).filled("bias", {1}, 0.0F);
  model.filled("mean", {1}, 0.0F).filled("var", {1}, 1.0F);
  model.nodes(R"(
    h = Mul(x, big)
    y = BatchNormalization<momentum = 0.9>(h, weight, bias, mean, var)
    q = Mul(y, y)
    loss = ReduceMean<keepdims = 0>(q))");
  SessionOptions options = sgd_options(0.1);
  options.batch_size = 2;
  options.edit_floats = [](const std::string&, std::vector<float>& values) {
    values = {1e-30F, 1e30F, 1e-30F, 3e-30F};
  };
  const auto session = value_or_die(Session::open(model.text(), options));
  ASSERT_EQ(session->plan().states_size(), 2);
  const auto state = [&](const std::string& name) {
    for (const proto::State& row : session->plan().states()) {
      if (row.name() == name) return session->tensor(row.tensor())[0];
    }
    return std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_TRUE(session->steps(1).at(0).skipped);
  EXPECT_EQ(state("mean"), 0.0F);
  EXPECT_EQ(state("var"), 1.0F);
  EXPECT_FALSE(session->steps(1).at(0).skipped);
  EXPECT_NEAR(state("mean"), 0.20000000298023224F, 1e-6);
  EXPECT_NEAR(state("var"), 1.100000023841858F, 1e-6) << "by the unbiased variance, which is 2";
}

// 20000 tokens of one row, each with a gradient of 0.01: a sum in float16 stops at 32.
TEST(ScalerCases, S22EmbeddingGradient) {
  ModelText model;
  model.input("int64[N] ids").output("float loss");
  model.filled("table", {1, 8}, 0.0F).filled("rate", {}, 0.01F);
  model.nodes(R"(
    rows = Gather<axis = 0>(table, ids)
    scaled = Mul(rows, rate)
    loss = ReduceSum<keepdims = 0>(scaled))");
  for (const std::string precision : {"fp16", "bf16", "fp32"}) {
    SessionOptions options = sgd_options(1);
    options.precision = precision;
    options.batch_size = options.samples = 20000;
    options.trainer.loss_scale.mode = LossScaleMode::kOff;
    options.edit_ints = [](const std::string&, std::vector<std::int64_t>& ids) {
      std::fill(ids.begin(), ids.end(), 0);
    };
    const auto session = value_or_die(Session::open(model.text(), options));
    session->steps(1);
    EXPECT_NEAR(-session->master("table")[0], 200.042724609375F, 2.0F) << precision;
  }
}

// A loss that is NaN in FP32 is no scaling problem: skipped, counted apart, and training goes on.
TEST(ScalerCases, S26NanFromData) {
  SessionOptions options = sgd_options(0);
  std::vector<float> xa(22, 0.5F);
  std::fill(xa.begin() + 1, xa.end() - 1, kHuge);
  set_data(options, xa, xa);  // their sum is inf
  options.trainer.loss_scale.init_scale = 65536;
  options.trainer.loss_scale.growth_interval = 2000;
  options.trainer.loss_scale.min_scale = 0x1p-20;
  const auto session = value_or_die(Session::open(two_weights_text(), options));
  const auto steps = session->steps(22);
  ASSERT_EQ(steps.size(), 22U);
  for (std::size_t i = 1; i < 21; ++i) EXPECT_TRUE(steps[i].skipped && std::isinf(steps[i].loss));
  EXPECT_FALSE(steps[21].skipped);
  EXPECT_EQ(session->trainer().loss_scaler().nonfinite_losses(), 20);
  EXPECT_EQ(session->trainer().skipped_steps(), 20);
  EXPECT_EQ(session->trainer().loss_scaler().scale(), 0.0625F);
}

TEST(Overflow, StopsAfterSkipsInARowAndNamesTheCause) {
  SessionOptions options = sgd_options(1);
  set_data(options, {0.5F, kHuge, 0.5F, kHuge, kHuge, kHuge}, std::vector<float>(6, 0.25F));
  options.trainer.loss_scale.max_skips = 3;
  options.trainer.groups = {group_of(options, "wb", "b")};
  const auto session = value_or_die(Session::open(two_weights_text(), options));
  session->steps(5);
  const auto last = session->trainer().step();
  EXPECT_THAT(last, Rejects("step 6: 3 steps in a row skipped, the loss scale fell to "));
  EXPECT_THAT(last, Rejects("gradients of 1 of 2 parameters hold inf or NaN, the first in the "
                            "backward pass that of 'wa' (optimizer sgd, 1 inf, 0 NaN of 1 "
                            "elements)"));
  EXPECT_THAT(last, Rejects("--max-skips"));
  EXPECT_EQ(session->trainer().last_step().step, 6);
}

TEST(Overflow, AtTheFloorItIsSaid) {
  SessionOptions options = sgd_options(1);
  set_data(options, std::vector<float>(12, kHuge), std::vector<float>(12, 0.25F));
  options.trainer.loss_scale.init_scale = 4;
  options.trainer.loss_scale.min_scale = 2;
  options.trainer.loss_scale.max_stuck_steps = 3;
  const auto session = value_or_die(Session::open(two_weights_text(), options));
  session->steps(3);
  EXPECT_THAT(session->trainer().step(),
              Rejects("step 4: 3 steps in a row skipped at the lowest loss scale, 2: "));
}

// Without a loss scale the first loss that is not finite ends the run, and the state stays good.
TEST(Overflow, AbortTellsALossThatIsNotFinite) {
  SessionOptions options = sgd_options(0.5);
  set_data(options, {0.5F, kHuge, 0.5F}, {0.25F, kHuge, 0.25F});
  options.trainer.loss_scale.mode = LossScaleMode::kOff;
  options.trainer.abort_on_overflow = true;
  const auto session = value_or_die(Session::open(two_weights_text(), options));
  session->steps(1);
  const std::vector<float> weights = session->all_weights();
  const auto bad = session->trainer().step();
  EXPECT_THAT(bad, Rejects("step 2: the loss is infinite, after 0.75 in the step before"));
  EXPECT_THAT(bad, Rejects("Hint: lower --lr"));
  EXPECT_EQ(session->all_weights(), weights);
  EXPECT_FALSE(session->steps(1).at(0).skipped) << "the caller may go on";
}

// The window's gradients are summed in FP32; no power of two divides a scale of 1000 exactly, yet
// unscaled gradients are those of no scale within rounding.
TEST(Overflow, AScaleThatIsNoPowerOfTwoIsRight) {
  for (const double scale : {1000.0, 3.0, 0.1, 12345.678}) {
    SessionOptions options = sgd_options(0.5);
    set_data(options, {0.3F, 0.7F, -1.1F, 0.2F}, {1e-3F, 2.0F, 5.0F, -3.0F});
    options.trainer.accumulate = 2;
    options.trainer.loss_scale.mode = LossScaleMode::kStatic;
    options.trainer.loss_scale.init_scale = scale;
    const auto scaled = value_or_die(Session::open(two_weights_text(), options));
    const auto metrics = scaled->steps(2);
    EXPECT_NEAR(scaled->master("wa")[0], 1 - 0.5 * 0.5 + 0.5 * 0.45, 5e-7);
    EXPECT_NEAR(scaled->master("wb")[0], 1 - 0.5 * 1.0005 - 0.5, 5e-7);
    EXPECT_NEAR(*metrics[0].grad_norm, std::hypot(0.5, 1.0005), 1e-6);
  }
}

}  // namespace
}  // namespace mezzo
