#include "runtime/train/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/support/half.h"
#include "recorded_run.h"
#include "tests/support/status_test.h"

namespace mezzo::runtime {
namespace {

using test::Rejects;
using test::value_or_die;

using namespace test_support;
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Optimizer, SgdEqualsPyTorch) {
  Single run = run_recorded(sgd(0.05));
  expect_recorded(
      run.w, {0x1.ccccccp-2F, -0x1.35c29p+0F, 0x1.fdb22cp+0F, -0x1.4f8b58p-16F, -0x1.676c8cp-2F});
  EXPECT_TRUE(run.optimizer.states().empty());
}

TEST(Optimizer, SgdWithMomentumAndDecayEqualsPyTorch) {
  Single run = run_recorded(sgd(0.05, 0.9, 0.01));
  expect_recorded(
      run.w, {0x1.9eb6ap-2F, -0x1.2767d2p+0F, 0x1.fa08d4p+0F, -0x1.7b40a8p-15F, -0x1.c98328p-1F});
  expect_recorded(run.state(0),
                  {0x1.d7bf42p-1F, -0x1.75ac1p-1F, 0x1.e5352p-3F, 0x1.6821c8p-12F, 0x1.721288p+2F});
  EXPECT_EQ(run.optimizer.states()[0].name, "momentum_buffer");
}

TEST(Optimizer, NesterovEqualsPyTorch) {
  Single run = run_recorded(sgd(0.05, 0.9, 0.01, true));
  expect_recorded(
      run.w, {0x1.744eecp-2F, -0x1.1f03c2p+0F, 0x1.f74ee6p+0F, -0x1.fca41ep-15F, -0x1.2731fcp+0F});
  expect_recorded(run.state(0),
                  {0x1.d7888p-1F, -0x1.756a96p-1F, 0x1.e50198p-3F, 0x1.67e2bp-12F, 0x1.71c04p+2F});
}

TEST(Optimizer, AdamWithDecayEqualsPyTorch) {
  Single run = run_recorded(adam(OptimizerKind::kAdam, 0.01, 0.8, 0.95, 1e-6, 0.1));
  expect_recorded(
      run.w, {0x1.d722cap-2F, -0x1.35c35p+0F, 0x1.f5afd8p+0F, 0x1.46a964p-8F, -0x1.41c51cp-5F});
  expect_recorded(
      run.state(0),
      {0x1.89dd0ep-3F, -0x1.86d2fep-3F, 0x1.30108p-3F, -0x1.62b08ep-15F, 0x1.e6dd76p-1F}, 1e-10);
  expect_recorded(run.state(1), {0x1.3f96acp-6F, 0x1.3dee0ep-6F, 0x1.74468cp-7F, 0x1.9fb41ap-25F,
                                 0x1.357f0cp-1F});
}

TEST(Optimizer, AdamWEqualsPyTorch) {
  Single run = run_recorded(adam(OptimizerKind::kAdamW, 0.01, 0.9, 0.999, 1e-8, 0.1));
  expect_recorded(
      run.w, {0x1.d63f54p-2F, -0x1.347f4ep+0F, 0x1.f7b43p+0F, -0x1.4727f4p-5F, -0x1.448b2p-5F});
  expect_recorded(run.state(0), {0x1.72a5a4p-4F, -0x1.19b90ep-4F, 0x1.13be24p-6F, 0x1.207bf6p-15F,
                                 0x1.289376p-1F});
  expect_recorded(run.state(1), {0x1.3a5cfap-12F, 0x1.4f0a96p-13F, 0x1.a69adp-17F, 0x1.5f50fap-35F,
                                 0x1.b96b24p-7F});
  EXPECT_EQ(run.optimizer.states()[0].name, "exp_avg");
  EXPECT_EQ(run.optimizer.states()[1].name, "exp_avg_sq");
  EXPECT_EQ(run.optimizer.applied_steps(), 4);
}

// 200 steps on 1000 elements: w starts at sin(0.37 i), the gradient at step t is
// 0.3 sin(0.37 i + t + 1) + 0.2 w. PyTorch gave these weights at 0, 17, 500 and 999. Its vector
// code may fuse operations, so bits need not be equal after so many steps.
void expect_long_run(const OptimizerGroup& group, const Floats& expected) {
  Floats start(1000);
  const auto wave = [](std::size_t i, double shift) {
    return static_cast<float>(std::sin(static_cast<double>(i) * 0.37 + shift));
  };
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = wave(i, 0);
  Single run(group, start);
  for (int t = 0; t < 200; ++t) {
    for (std::size_t i = 0; i < run.g.size(); ++i) {
      run.g[i] = wave(i, t + 1.0) * 0.3F + 0.2F * run.w[i];
    }
    run.step();
  }
  const std::vector<std::size_t> places = {0, 17, 500, 999};
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_NEAR(run.w[places[i]], expected[i], 2e-7) << "element " << places[i];
  }
}

TEST(Optimizer, LongRunsFollowPyTorch) {
  expect_long_run(adam(OptimizerKind::kAdamW, 0.01, 0.9, 0.999, 1e-8, 0.1),
                  {-0x1.1e5d24p-8F, -0x1.db6a1ap-9F, 0x1.66b986p-5F, -0x1.f503dep-4F});
  expect_long_run(adam(OptimizerKind::kAdam, 0.01, 0.9, 0.999, 1e-8, 0.1),
                  {-0x1.b630cp-10F, -0x1.6b656ap-10F, 0x1.3203cp-6F, -0x1.39c9bep-4F});
  expect_long_run(sgd(0.05, 0.9, 0.01),
                  {0x1.40fc62p-11F, 0x1.7ecbbap-11F, 0x1.6363cap-8F, -0x1.e9f886p-7F});
}

TEST(Optimizer, MeasuresNormAndOverflow) {
  Single run(sgd(0.1), Floats(3, 0.0F));
  run.g = {3.0F * 1024, 4.0F * 1024, 12.0F * 1024};
  GradientStats stats = run.optimizer.measure();
  EXPECT_DOUBLE_EQ(stats.norm(1.0F / 1024), 13.0);
  EXPECT_FALSE(stats.found_inf(1.0F / 1024));
  run.g = {3e38F, 3e38F, 1e-38F};  // squares are beyond float32, but not beyond double
  stats = run.optimizer.measure();
  EXPECT_NEAR(stats.norm(1e-3F) / (std::sqrt(2.0) * 3e35), 1.0, 1e-6);
  EXPECT_FALSE(stats.found_inf(1e-3F));
  EXPECT_TRUE(run.optimizer.measure().found_inf(16.0F));  // unscaling would overflow
  for (const float bad : {kInf, -kInf, std::nanf("")}) {
    run.g = {1.0F, bad, 2.0F};
    EXPECT_TRUE(run.optimizer.measure().found_inf(1.0F / 1024)) << bad;
  }
}

TEST(Optimizer, FindsAnOverflowAnywhere) {
  Single run(sgd(0.1), Floats(40'000, 0.0F));
  for (const std::size_t at : {0U, 1U, 15U, 16U, 16'383U, 16'384U, 39'999U}) {
    std::fill(run.g.begin(), run.g.end(), 1.0F);
    run.g[at] = kInf;
    EXPECT_TRUE(run.optimizer.measure().found_inf(1.0F)) << at;
  }
}

// torch.nn.utils.clip_grad_norm_([3, 4], [12]; 2.0): norm 13, gradients as below.
TEST(Optimizer, ClipsTheUnscaledNormAsPyTorch) {
  Single run(sgd(1.0), {0, 0, 0});
  run.g = {3 * 1024.0F, 4 * 1024.0F, 12 * 1024.0F};
  OptimizerStep settings;
  settings.inverse_scale = 1.0F / 1024;
  settings.clip_norm = 2.0;
  run.step(settings);
  expect_equal(run.w, {-0.4615384340286255F, -0.615384578704834F, -1.846153736114502F});
  EXPECT_EQ(run.g[0], 3 * 1024.0F);  // not modified
}

TEST(Optimizer, ClippingIsNeutralBelowTheLimit) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0F);
  EXPECT_EQ(clip_factor(5.0, 0.0), 1.0F);
  EXPECT_NEAR(clip_factor(5.0, 1.0), 0.2, 1e-6);
  EXPECT_FLOAT_EQ(clip_factor(0.0, 1e-9), 1e-3F);
}

TEST(Optimizer, ClipsValuesAfterUnscaling) {
  Single run(sgd(1.0), {0, 0, 0});
  run.g = {1.0F, -8.0F, 4.0F};
  OptimizerStep settings;
  settings.inverse_scale = 0.25F;
  settings.clip_value = 0.75;
  run.step(settings);
  expect_equal(run.w, {-0.25F, 0.75F, -0.75F});
}

TEST(Optimizer, WritesTheLowCopyInTheSamePass) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const auto& group : {sgd(0.1), sgd(0.1, 0.9), sgd(0.1, 0.9, 0.1, true),
                              adam(OptimizerKind::kAdamW, 0.01, 0.9, 0.999, 1e-8, 0.1)}) {
      Floats start(1003);
      for (std::size_t i = 0; i < start.size(); ++i) {
        start[i] = std::ldexp(1.0F + static_cast<float>(i) / 1003, static_cast<int>(i % 50) - 30);
      }
      Single run(group, start, dtype);
      std::fill(run.g.begin(), run.g.end(), 0.37F);
      run.step();
      for (std::size_t i = 0; i < start.size(); ++i) {
        const std::uint16_t expected =
            dtype == DType::kFloat16 ? float_to_f16(run.w[i]) : float_to_bf16(run.w[i]);
        ASSERT_EQ(run.low[i], expected) << i;
      }
    }
  }
}

TEST(Optimizer, RefreshesLowCopies) {
  Single run(sgd(0.1), {1.0F, 70000.0F, -3e-8F}, DType::kFloat16);
  run.optimizer.refresh_low();
  EXPECT_EQ(run.low[0], 0x3c00);
  EXPECT_EQ(run.low[1], 0x7c00);  // beyond float16
  EXPECT_EQ(run.low[2], 0x8001);
}

// A padded element has weight, gradient and state 0, and keeps exactly 0 under everything that can
// move others: decay, momentum, bias correction, eps = 0.
TEST(Optimizer, PaddingStaysExactlyZero) {
  std::vector<OptimizerGroup> groups = {sgd(0.1, 0.9, 0.1), sgd(0.1, 0.9, 0.1, true)};
  for (const double eps : {1e-8, 0.0}) {
    groups.push_back(adam(OptimizerKind::kAdam, 0.1, 0.9, 0.999, eps, 0.1));
    groups.push_back(adam(OptimizerKind::kAdamW, 0.1, 0.9, 0.999, eps, 0.1));
  }
  for (const OptimizerGroup& group : groups) {
    Floats start(37);
    for (std::size_t i = 0; i < start.size(); i += 2) start[i] = 0.5F;
    Single run(group, start, DType::kBFloat16);
    for (int t = 0; t < 60; ++t) {
      for (std::size_t i = 0; i < start.size(); i += 2) run.g[i] = 0.1F * static_cast<float>(t % 7);
      OptimizerStep settings;
      settings.clip_norm = 0.5;
      run.step(settings);
    }
    for (std::size_t i = 1; i < start.size(); i += 2) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(run.w[i]), 0U) << i;
      ASSERT_EQ(run.low[i], 0U) << i;
      for (const auto& state : run.optimizer.states()) ASSERT_EQ(state.values[i], 0.0F);
    }
    EXPECT_TRUE(std::isfinite(run.w[0]));
    EXPECT_NE(run.w[0], 0.5F);
  }
}

TEST(Optimizer, BitsDoNotDependOnTheThreadCount) {
  Floats start(100'003);
  for (std::size_t i = 0; i < start.size(); ++i) {
    start[i] = std::sin(static_cast<float>(i)) * (i % 97 == 0 ? 1e4F : 1.0F);
  }
  std::vector<double> norms;
  std::vector<Floats> weights;
  for (const int threads : {1, 2, 3, 8}) {
    Single run(adam(OptimizerKind::kAdamW, 0.01, 0.9, 0.999, 1e-8, 0.1), start, DType::kNone,
               threads);
    for (int t = 0; t < 3; ++t) {
      for (std::size_t i = 0; i < start.size(); ++i) run.g[i] = start[i] + static_cast<float>(t);
      OptimizerStep settings;
      settings.clip_norm = 1.0;
      run.step(settings);
    }
    norms.push_back(run.optimizer.measure().sum_of_squares);
    weights.push_back(run.w);
  }
  for (std::size_t i = 1; i < norms.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(norms[i]), std::bit_cast<std::uint64_t>(norms[0]));
    EXPECT_EQ(weights[i], weights[0]);
  }
}

struct Groups : testing::Test {
  Floats w1 = {1, 1}, w2 = {1}, w3 = {1}, g1 = {1, 2}, g2 = {4}, g3 = {kInf};
  std::vector<OptimizerParameter> parameters = {
      parameter("a", 0, w1, g1), parameter("b", 1, w2, g2), parameter("c", 2, w3, g3)};
  std::vector<OptimizerGroup> groups = {
      sgd(0.5), adam(OptimizerKind::kAdam, 0.125, 0.9, 0.999, 0, 0), sgd(0.5)};
  Groups() { groups[2].frozen = true; }

  static OptimizerParameter parameter(const char* name, int group, Floats& w, Floats& g) {
    OptimizerParameter result;
    result.name = name;
    result.group = group;
    result.elems = static_cast<std::int64_t>(w.size());
    result.master = w.data();
    result.grad = g.data();
    return result;
  }
};

TEST_F(Groups, EachParameterFollowsItsGroup) {
  Optimizer optimizer = value_or_die(Optimizer::create(groups, parameters));
  const GradientStats stats = optimizer.measure();
  EXPECT_EQ(stats.sum_of_squares, 1 + 4 + 16);  // the frozen one's inf is nobody's business
  OptimizerStep settings;
  settings.lr_factor = 0.5;
  optimizer.step(stats, settings);
  expect_equal(w1, {0.75F, 0.5F});
  EXPECT_NEAR(w2[0], 1 - 0.0625, 1e-6);
  expect_equal(w3, {1.0F});
  EXPECT_EQ(optimizer.states().size(), 2U);
  EXPECT_EQ(optimizer.states()[0].parameter, 1U);
}

TEST_F(Groups, CreateChecksEverything) {
  const auto rejects = [&](auto change, const char* text) {
    auto some_groups = groups;
    auto some_parameters = parameters;
    change(some_groups, some_parameters);
    EXPECT_THAT(Optimizer::create(some_groups, some_parameters), Rejects(text));
  };
  rejects([](auto& g, auto&) { g[0].lr = -1; }, "optimizer group 0: lr: expected");
  rejects([](auto& g, auto&) { g[0].momentum = std::nan(""); }, "momentum");
  rejects([](auto& g, auto&) { g[0].momentum = 2; },
          "momentum: expected a number in [0, 1), got 2");
  rejects([](auto& g, auto&) { g[0].dampening = 1; }, "dampening");
  rejects([](auto& g, auto&) { g[0].momentum = g[0].dampening = 0.5, g[0].nesterov = true; },
          "dampening: expected 0 with Nesterov");
  rejects([](auto& g, auto&) { g[1].kind = OptimizerKind::kAdagrad, g[1].lr_decay = -1; },
          "lr decay");
  rejects(
      [](auto& g, auto&) { g[1].kind = OptimizerKind::kAdagrad, g[1].initial_accumulator = -1; },
      "initial accumulator");
  rejects([](auto& g, auto&) { g[1].kind = OptimizerKind::kLamb, g[1].beta1 = 1; }, "beta1");
  rejects([](auto& g, auto&) { g[0].nesterov = true; }, "more than 0 with Nesterov");
  rejects([](auto& g, auto&) { g[0].weight_decay = -0.1; }, "weight decay");
  rejects([](auto& g, auto&) { g[1].beta1 = 1; }, "group 1: beta1: expected a number in [0, 1)");
  rejects([](auto& g, auto&) { g[1].beta2 = -0.1; }, "beta2");
  rejects([](auto& g, auto&) { g[1].eps = -1; }, "eps");
  rejects([](auto& g, auto&) { g[0].frozen = g[1].frozen = true; }, "nothing to train");
  rejects([](auto&, auto& p) { p.clear(); }, "nothing to train");
  const auto internal = [&](auto change) {
    auto some_parameters = parameters;
    change(some_parameters);
    EXPECT_EQ(Optimizer::create(groups, some_parameters).status().code(), StatusCode::kInternal);
  };
  internal([](auto& p) { p[0].group = 3; });
  internal([](auto& p) { p[0].group = -1; });
  internal([](auto& p) { p[0].grad = nullptr; });
  internal([](auto& p) { p[0].elems = -1; });
}

TEST_F(Groups, StateMayLieInTheCallersBuffers) {
  Floats mean = {0.5F}, square = {0.25F};
  parameters[1].first = mean.data();
  parameters[1].second = square.data();
  Optimizer optimizer = value_or_die(Optimizer::create(groups, parameters));
  optimizer.set_applied_steps(9);
  optimizer.step(optimizer.measure(), {});
  EXPECT_EQ(optimizer.applied_steps(), 10);
  EXPECT_NEAR(mean[0], 0.85F, 1e-6);
  EXPECT_NEAR(square[0], 0.25F * 0.999F + 0.016F, 1e-6);
  EXPECT_EQ(optimizer.states()[0].values.data(), mean.data());
}

TEST(Optimizer, Names) {
  for (const auto kind : {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW,
                          OptimizerKind::kLamb, OptimizerKind::kAdagrad}) {
    EXPECT_EQ(value_or_die(parse_optimizer(optimizer_name(kind))), kind);
  }
  EXPECT_THAT(parse_optimizer("adamv"), Rejects("Did you mean 'adam'?"));
}

}  // namespace
}  // namespace mezzo::runtime
