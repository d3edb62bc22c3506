// Dampening, the HuggingFace form of AdamW, LAMB, Adagrad and moving averages.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "recorded_run.h"
#include "runtime/train/optimizer.h"

namespace mezzo::runtime {
namespace {

using namespace test_support;

OptimizerGroup adagrad(double lr, double lr_decay, double decay, double start) {
  OptimizerGroup group;
  group.kind = OptimizerKind::kAdagrad;
  group.lr = lr;
  group.lr_decay = lr_decay;
  group.weight_decay = decay;
  group.initial_accumulator = start;
  group.eps = default_eps(group.kind);
  return group;
}

// Recorded from PyTorch 2.15 as in optimizer_test: torch.optim.SGD(lr=0.05, momentum=0.9,
// dampening=0.3, weight_decay=0.01, foreach=False).
TEST(OptimizerForms, DampeningEqualsPyTorch) {
  OptimizerGroup group = sgd(0.05, 0.9, 0.01);
  group.dampening = 0.3;
  Single run = run_recorded(group);
  expect_recorded(
      run.w, {0x1.b658dcp-2F, -0x1.2bf9ecp+0F, 0x1.fb8f44p+0F, -0x1.34c544p-15F, -0x1.827716p-1F});
  expect_recorded(run.state(0), {0x1.56070ap-1F, -0x1.1d688ep-1F, 0x1.5ca686p-3F, 0x1.131108p-12F,
                                 0x1.261716p+2F});
}

// torch.optim.Adagrad(lr=0.1, lr_decay=0.05, weight_decay=0.01, initial_accumulator_value=0.1).
TEST(OptimizerForms, AdagradWithAllItsTermsEqualsPyTorch) {
  Single run = run_recorded(adagrad(0.1, 0.05, 0.01, 0.1));
  expect_recorded(
      run.w, {0x1.3b4982p-2F, -0x1.12d266p+0F, 0x1.edf776p+0F, -0x1.ecaf5p-14F, -0x1.c549p-3F});
  expect_recorded(run.state(0),
                  {0x1.a22ab4p-2F, 0x1.1e0f42p-2F, 0x1.f0b3e8p-4F, 0x1.9999a2p-4F, 0x1.b2ca7p+3F});
  EXPECT_EQ(run.optimizer.states()[0].name, "sum");
  EXPECT_EQ(run.optimizer.states().size(), 1U);
}

// torch.optim.Adagrad(lr=0.1).
TEST(OptimizerForms, PlainAdagradEqualsPyTorch) {
  Single run = run_recorded(adagrad(0.1, 0, 0, 0));
  expect_recorded(
      run.w, {0x1.42404cp-3F, -0x1.f16f8ep-1F, 0x1.bafa1cp+0F, -0x1.1d20d2p-2F, -0x1.dd6a12p-3F});
  expect_recorded(run.state(0),
                  {0x1.333334p-2F, 0x1.47ae16p-3F, 0x1.9ce076p-7F, 0x1.5798eep-25F, 0x1.bp+3F});
}

// The formulas of optimizer.h in NumPy float64, on the gradients of run_recorded().
TEST(OptimizerForms, HuggingFaceAdamW) {
  OptimizerGroup group = adam(OptimizerKind::kAdamW, 0.01, 0.9, 0.999, 1e-6, 0.1);
  group.adamw_form = AdamWForm::kHuggingFace;
  Single run = run_recorded(group);
  expect_recorded(run.w,
                  {0.4592705556516339F, -1.2051117861908045F, 1.9676317071806682F,
                   -0.03277860400031312F, -0.039578115473878954F},
                  2e-8);
  group.bias_correction = false;
  Single uncorrected = run_recorded(group);
  expect_recorded(uncorrected.w,
                  {0.3260978118335169F, -1.0673958457719082F, 1.8722396273707644F,
                   -0.14726174037494918F, -0.1717782938012281F},
                  2e-8);
  // The small gradient of element 3 tells the forms apart: eps beside the uncorrected root.
  Single pytorch = run_recorded(adam(OptimizerKind::kAdamW, 0.01, 0.9, 0.999, 1e-6, 0.1));
  EXPECT_GT(std::fabs(pytorch.w[3] - run.w[3]), 1e-3F);
}

TEST(OptimizerForms, Lamb) {
  Single run = run_recorded(adam(OptimizerKind::kLamb, 0.01, 0.9, 0.999, 1e-6, 0.1));
  expect_recorded(run.w,
                  {0.4562617274167283F, -1.2018352743188179F, 1.9659184269353622F,
                   -0.04238938590491572F, -0.04243782266993212F},
                  2e-8);
  EXPECT_EQ(run.optimizer.states()[1].name, "exp_avg_sq");
}

// From zero weights the first step has no ratio to go by: 1.
TEST(OptimizerForms, LambStartsFromZero) {
  Single run(adam(OptimizerKind::kLamb, 0.01, 0.9, 0.999, 1e-6, 0), Floats(5, 0.0F));
  for (int t = 0; t < 4; ++t) {
    std::ranges::copy(recorded_gradient(t), run.g.begin());
    run.step();
  }
  expect_recorded(run.w,
                  {-0.010274067188388084F, 0.010285186276854989F, -0.00023245102787105998F,
                   -0.01018340366357729F, -0.01027264547520785F},
                  2e-9);
}

// A ratio belongs to a parameter, however many pieces it is cut into, and not to its neighbour.
TEST(OptimizerForms, LambRatioIsOfTheWholeParameter) {
  constexpr std::size_t kElems = 40'000;
  Floats large(kElems, 2.0F), small(3, 0.5F), g_large(kElems, 1.0F), g_small(3, -1.0F);
  OptimizerParameter a, b;
  a.name = "a", a.elems = kElems, a.master = large.data(), a.grad = g_large.data();
  b.name = "b", b.elems = 3, b.master = small.data(), b.grad = g_small.data();
  for (const int threads : {1, 3}) {
    std::fill(large.begin(), large.end(), 2.0F);
    std::fill(small.begin(), small.end(), 0.5F);
    Optimizer optimizer = test::value_or_die(Optimizer::create(
        {adam(OptimizerKind::kLamb, 0.1, 0.9, 0.999, 0, 0)}, {a, b}, {threads, 0.0}));
    optimizer.step(optimizer.measure(), {});
    for (const float w : large) ASSERT_NEAR(w, 1.8F, 1e-6F);  // |w| / |u| = 2, u = 1
    for (const float w : small) ASSERT_NEAR(w, 0.55F, 1e-6F);
  }
}

TEST(OptimizerForms, PaddingStaysExactlyZero) {
  for (const double eps : {1e-8, 0.0}) {
    for (OptimizerGroup group :
         {adam(OptimizerKind::kLamb, 0.1, 0.9, 0.999, eps, 0.1), adagrad(0.1, 0.1, 0.1, 0.0),
          adagrad(0.1, 0.1, 0.1, 0.5), adam(OptimizerKind::kAdamW, 0.1, 0.9, 0.999, eps, 0.1)}) {
      group.eps = eps;
      if (group.kind == OptimizerKind::kAdamW) group.adamw_form = AdamWForm::kHuggingFace;
      Floats start(37);
      for (std::size_t i = 0; i < start.size(); i += 2) start[i] = 0.5F;
      Single run(group, start, DType::kBFloat16, 1, 0.9);
      for (int t = 0; t < 60; ++t) {
        for (std::size_t i = 0; i < start.size(); i += 2)
          run.g[i] = 0.1F * static_cast<float>(t % 7);
        run.step();
      }
      for (std::size_t i = 1; i < start.size(); i += 2) {
        ASSERT_EQ(run.w[i], 0.0F) << i;
        ASSERT_EQ(run.low[i], 0U) << i;
        ASSERT_EQ(run.optimizer.averages()[0].values[i], 0.0F);
      }
      EXPECT_TRUE(std::isfinite(run.w[0]));
      EXPECT_NE(run.w[0], 0.5F);
    }
  }
}

// torch.optim.swa_utils.AveragedModel(multi_avg_fn=get_ema_multi_avg_fn(0.9)) around SGD: the
// average after each of four steps.
TEST(MovingAverage, EqualsPyTorch) {
  Single run(sgd(1), {1.0F, -2.0F, 0.5F}, DType::kNone, 1, 0.9);
  const std::vector<Floats> expected = {{0x1.ccccccp-1F, -0x1.19999ap+1F, 0x1.99999ap-1F},
                                        {0x1.c28f5cp-1F, -0x1.1eb852p+1F, 0x1.b851ecp-1F},
                                        {0x1.a9fbe8p-1F, -0x1.2b020cp+1F, 0x1.010626p+0F},
                                        {0x1.7f62b8p-1F, -0x1.404ea4p+1F, 0x1.40ebfp+0F}};
  for (std::size_t t = 0; t < 4; ++t) {
    const auto n = static_cast<float>(t + 1);
    run.g = {0.1F * n, 0.2F * n, -0.3F * n};
    run.step();
    expect_recorded(run.optimizer.averages()[0].values, expected[t]);
  }
  EXPECT_EQ(run.optimizer.averages()[0].name, "average");
}

TEST(MovingAverage, IsKeptByEveryKindAndSwapsBothWays) {
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kLamb, OptimizerKind::kAdagrad}) {
    Single run(adam(kind, 0.1, 0.9, 0.999, 1e-8, 0), {1.0F, -2.0F}, DType::kNone, 1, 0.5);
    run.optimizer.swap_averages();  // none yet
    EXPECT_EQ(run.w[0], 1.0F);
    run.g = {0.5F, 0.25F};
    run.step();
    const Floats first = run.w;
    expect_equal(run.optimizer.averages()[0].values, first);
    run.step();
    const Floats second = run.w;
    run.optimizer.swap_averages();
    for (std::size_t i = 0; i < 2; ++i) EXPECT_FLOAT_EQ(run.w[i], (first[i] + second[i]) / 2);
    expect_equal(run.optimizer.averages()[0].values, second);
    run.optimizer.swap_averages();
    expect_equal(run.w, second);
  }
}

TEST(BadGradients, AreToldByParameter) {
  Single run(sgd(1), {1.0F, 2.0F, 3.0F, 4.0F});
  run.g = {1, 2, 3, 4};
  EXPECT_TRUE(run.optimizer.bad_gradients().empty());
  run.g = {INFINITY, NAN, -INFINITY, 4};
  const auto bad = run.optimizer.bad_gradients();
  ASSERT_EQ(bad.size(), 1U);
  EXPECT_EQ(bad[0].parameter, 0U);
  EXPECT_EQ(bad[0].infs, 2);
  EXPECT_EQ(bad[0].nans, 1);
}

}  // namespace
}  // namespace mezzo::runtime
