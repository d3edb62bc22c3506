#include "runtime/train/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/shared_data.h"
#include "tests/support/status_test.h"

namespace mezzo::runtime {
namespace {

using test::Rejects;
using test::value_or_die;

void expect_rates(const LrScheduleOptions& options, const std::vector<double>& expected,
                  std::int64_t first = 0) {
  const LrSchedule schedule = value_or_die(LrSchedule::create(options));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto step = first + static_cast<std::int64_t>(i);
    EXPECT_NEAR(schedule.rate(step), expected[i], 1e-12 + 1e-9 * expected[i]) << "step " << step;
  }
}

LrScheduleOptions with(LrScheduleKind kind, double lr) {
  LrScheduleOptions options;
  options.kind = kind;
  options.base_lr = lr;
  return options;
}

TEST(LrSchedule, ConstantWithAndWithoutWarmup) {
  auto options = with(LrScheduleKind::kConstant, 0.05);
  expect_rates(options, {0.05, 0.05, 0.05});
  options.warmup_steps = 4;
  expect_rates(options, {0.0125, 0.025, 0.0375, 0.05, 0.05, 0.05});
}

// Recorded with the training references: lr 0.002, 5 of 30 steps of warm-up.
TEST(LrSchedule, WarmupCosine) {
  auto options = with(LrScheduleKind::kCosine, 0.002);
  options.warmup_steps = 5;
  options.total_steps = 30;
  expect_rates(options, {0.0004, 0.0008, 0.0012, 0.0016, 0.002, 0.002, 0.001992114701314478,
                         0.001968583161128631, 0.0019297764858882513, 0.0018763066800438636});
  expect_rates(options,
               {0.00012369331995613642, 7.022351411174865e-05, 3.1416838871369035e-05,
                7.885298685522235e-06, 0.0, 0.0},
               26);
}

// torch.optim.lr_scheduler, PyTorch 2.15, lr 0.2: CosineAnnealingLR(T_max=8, eta_min=0.02),
// StepLR(3, gamma=0.5), OneCycleLR(max_lr=0.2, total_steps=11 and 40).
TEST(LrSchedule, CosineDownToAFloor) {
  auto options = with(LrScheduleKind::kCosine, 0.2);
  options.total_steps = 8;
  options.min_factor = 0.1;
  expect_rates(options,
               {0.2, 0.1931491579260158, 0.17363961030678926, 0.1444415089128581, 0.11,
                0.07555849108714192, 0.04636038969321073, 0.026850842073984194, 0.02, 0.02});
}

TEST(LrSchedule, Step) {
  auto options = with(LrScheduleKind::kStep, 0.2);
  options.step_size = 3;
  options.gamma = 0.5;
  expect_rates(options, {0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025});
  options.warmup_steps = 2;
  expect_rates(options, {0.1, 0.2, 0.2, 0.2, 0.2, 0.1});
}

TEST(LrSchedule, OneCycle) {
  auto options = with(LrScheduleKind::kOneCycle, 0.2);
  options.total_steps = 11;
  expect_rates(options, {0.008, 0.08446822274694717, 0.1920522849445235, 0.19594931356426032,
                         0.17689514495372607, 0.14521740985950568, 0.10611654161751996,
                         0.06601160579745897, 0.031486502559901576, 0.008209108641258173});
  options.total_steps = 40;
  expect_rates(options, {0.19611132546699175, 0.2, 0.19937122350444034}, 10);
  expect_rates(options, {0.000629576495559697, 8e-07, 8e-07, 8e-07}, 38);
}

TEST(LrSchedule, ShortOneCyclesStayInRange) {
  for (std::int64_t total = 2; total < 12; ++total) {
    for (const double share : {0.0, 0.3, 0.5, 1.0}) {
      auto options = with(LrScheduleKind::kOneCycle, 1.0);
      options.total_steps = total;
      options.pct_start = share;
      const LrSchedule schedule = value_or_die(LrSchedule::create(options));
      for (std::int64_t step = 0; step < total + 2; ++step) {
        EXPECT_GE(schedule.rate(step), 0.0) << total << " " << share;
        EXPECT_LE(schedule.rate(step), 1.0) << total << " " << share;
      }
    }
  }
}

// LinearLR(start_factor=1, end_factor=0.1, total_iters=8).
TEST(LrSchedule, Linear) {
  auto options = with(LrScheduleKind::kLinear, 0.2);
  options.total_steps = 8;
  options.min_factor = 0.1;
  expect_rates(options, {0.2, 0.1775, 0.155, 0.1325, 0.11, 0.0875, 0.065, 0.0425, 0.02, 0.02});
}

// PolynomialLR(total_iters=8, power=2 and 0.5).
TEST(LrSchedule, Polynomial) {
  auto options = with(LrScheduleKind::kPolynomial, 0.2);
  options.total_steps = 8;
  options.power = 2;
  expect_rates(options, {0.2, 0.153125, 0.1125, 0.078125, 0.05, 0.028125, 0.0125, 0.003125, 0, 0});
  options.power = 0.5;
  expect_rates(options, {0.2, 0.18708286933869708, 0.17320508075688773, 0.15811388300841897,
                         0.1414213562373095, 0.1224744871391589, 0.1, 0.07071067811865475, 0, 0});
}

// SequentialLR([LinearLR(start_factor=1/4, total_iters=3), ...], milestones=[4]) with
// LinearLR(end_factor=0.1, total_iters=8), PolynomialLR(total_iters=6, power=2),
// CosineAnnealingLR(T_max=6, eta_min=0.02) and StepLR(2, gamma=0.5).
TEST(LrSchedule, WarmupBeforeEachShape) {
  const std::vector<double> warmup = {0.05, 0.1, 0.15, 0.2};
  auto options = with(LrScheduleKind::kLinear, 0.2);
  options.warmup_steps = 4;
  options.total_steps = 12;
  options.min_factor = 0.1;
  expect_rates(options, warmup);
  expect_rates(options, {0.2, 0.1775, 0.155, 0.1325, 0.11, 0.0875, 0.065, 0.0425, 0.02}, 4);
  options = with(LrScheduleKind::kPolynomial, 0.2);
  options.warmup_steps = 4;
  options.total_steps = 10;
  options.power = 2;
  expect_rates(options, warmup);
  expect_rates(options,
               {0.2, 0.13888888888888892, 0.08888888888888893, 0.05, 0.022222222222222233,
                0.005555555555555555, 0, 0},
               4);
  options = with(LrScheduleKind::kCosine, 0.2);
  options.warmup_steps = 4;
  options.total_steps = 10;
  options.min_factor = 0.1;
  expect_rates(options, warmup);
  expect_rates(options, {0.2, 0.1879422863405995, 0.155, 0.11, 0.065, 0.03205771365940052, 0.02},
               4);
  options = with(LrScheduleKind::kStep, 0.2);
  options.warmup_steps = 4;
  options.step_size = 2;
  options.gamma = 0.5;
  expect_rates(options, warmup);
  expect_rates(options, {0.2, 0.2, 0.1, 0.1, 0.05, 0.05, 0.025}, 4);
}

// OneCycleLR(max_lr=0.2, total_steps=10, pct_start=0.4, div_factor=10, final_div_factor=100).
TEST(LrSchedule, OneCycleWithOtherShares) {
  auto options = with(LrScheduleKind::kOneCycle, 0.2);
  options.total_steps = 10;
  options.pct_start = 0.4;
  options.div_factor = 10;
  options.final_div_factor = 100;
  expect_rates(options, {0.02, 0.065, 0.155, 0.2, 0.18661593783806546, 0.15005, 0.1001, 0.05015,
                         0.013584062161934574, 0.0002});
}

// Overflows at steps 1, 2 and 5 of 6: the rate halves per applied step, and stands still on others.
TEST(LrSchedule, SkippedStepsLeaveItUntouched) {
  auto options = with(LrScheduleKind::kStep, 0.1);
  options.step_size = 1;
  options.gamma = 0.5;
  const LrSchedule schedule = value_or_die(LrSchedule::create(options));
  std::int64_t applied = 0;
  std::vector<double> used;
  for (const bool found_inf : {true, true, false, false, true, false}) {
    used.push_back(schedule.rate(applied));
    if (!found_inf) ++applied;
  }
  EXPECT_EQ(used, (std::vector<double>{0.1, 0.1, 0.1, 0.05, 0.025, 0.025}));
  EXPECT_EQ(applied, 3);
}

TEST(LrSchedule, ValidatesOptions) {
  const auto rejects = [](LrScheduleKind kind, auto change, const char* text) {
    auto options = with(kind, 0.1);
    options.total_steps = 10;
    change(options);
    EXPECT_THAT(LrSchedule::create(options), Rejects(text));
  };
  rejects(
      LrScheduleKind::kConstant, [](auto& o) { o.base_lr = -1; }, "--lr: expected");
  rejects(
      LrScheduleKind::kConstant, [](auto& o) { o.base_lr = std::nan(""); }, "--lr");
  rejects(
      LrScheduleKind::kConstant, [](auto& o) { o.warmup_steps = -1; }, "--warmup-steps");
  rejects(
      LrScheduleKind::kCosine, [](auto& o) { o.warmup_steps = 10; }, "fewer than the 10 steps");
  rejects(
      LrScheduleKind::kCosine, [](auto& o) { o.total_steps = 0; }, "fewer than the 0 steps");
  rejects(
      LrScheduleKind::kCosine, [](auto& o) { o.min_factor = 2; }, "0 to 1");
  rejects(
      LrScheduleKind::kStep, [](auto&) {}, "step size");
  rejects(
      LrScheduleKind::kOneCycle, [](auto& o) { o.warmup_steps = 1; }, "its own warm-up");
  rejects(
      LrScheduleKind::kOneCycle, [](auto& o) { o.total_steps = 1; }, "at least 2 steps");
  rejects(
      LrScheduleKind::kOneCycle, [](auto& o) { o.div_factor = 0; }, "--lr-div");
  rejects(
      LrScheduleKind::kOneCycle, [](auto& o) { o.final_div_factor = 0; }, "--lr-final-div");
  rejects(
      LrScheduleKind::kOneCycle, [](auto& o) { o.pct_start = 2; }, "--lr-rise");
  rejects(
      LrScheduleKind::kPolynomial, [](auto& o) { o.power = 0; }, "--lr-power");
  rejects(
      LrScheduleKind::kLinear, [](auto& o) { o.warmup_steps = 10; }, "fewer than the 10 steps");
}

TEST(LrSchedule, Names) {
  EXPECT_EQ(value_or_die(parse_lr_schedule("warmup-cosine")), LrScheduleKind::kCosine);
  for (const auto kind :
       {LrScheduleKind::kConstant, LrScheduleKind::kLinear, LrScheduleKind::kPolynomial,
        LrScheduleKind::kCosine, LrScheduleKind::kStep, LrScheduleKind::kOneCycle}) {
    EXPECT_EQ(value_or_die(parse_lr_schedule(lr_schedule_name(kind))), kind);
  }
  EXPECT_THAT(parse_lr_schedule("cosin"), Rejects("Did you mean 'cosine'?"));
}

// Every rate of every optimizer setup recorded beside the acceptance models.
TEST(LrSchedule, FollowsTheRecordedReferences) {
  const auto shared = test::shared_folder();
  if (!shared) GTEST_SKIP() << test::kNoSharedFolder;
  std::ifstream file(*shared / "refs/mlp/expected.json");
  const auto reference = nlohmann::json::parse(file);
  for (const auto& [name, setup] : reference["setups"].items()) {
    LrScheduleOptions options;
    const auto flags = setup["flags"].get<std::vector<std::string>>();
    for (std::size_t i = 0; i + 1 < flags.size(); ++i) {
      if (flags[i] == "--lr") options.base_lr = std::stod(flags[i + 1]);
      if (flags[i] == "--schedule") options.kind = value_or_die(parse_lr_schedule(flags[i + 1]));
      if (flags[i] == "--warmup-steps") options.warmup_steps = std::stoll(flags[i + 1]);
    }
    options.total_steps = setup["steps"];
    SCOPED_TRACE(name);
    expect_rates(options, setup["lr"].get<std::vector<double>>());
  }
}

}  // namespace
}  // namespace mezzo::runtime
