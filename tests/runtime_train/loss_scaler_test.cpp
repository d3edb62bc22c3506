#include "runtime/train/loss_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/status_test.h"

namespace mezzo::runtime {
namespace {

using test::IsOk;
using test::Rejects;
using test::value_or_die;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kInf = std::numeric_limits<double>::infinity();

LossScalerOptions no_limits(double init, std::int64_t interval) {
  LossScalerOptions options;
  options.init_scale = init;
  options.growth_interval = interval;
  options.min_scale = std::numeric_limits<float>::min();
  options.max_scale = kInf;
  return options;
}

// Scales after each step of a pattern of overflows (1) and clean steps (0).
std::vector<double> scales(LossScaler& scaler, const std::vector<int>& pattern,
                           std::vector<std::int64_t>* counter = nullptr) {
  std::vector<double> result;
  for (const int found_inf : pattern) {
    scaler.update(found_inf != 0);
    result.push_back(scaler.scale());
    if (counter != nullptr) counter->push_back(scaler.clean_steps());
  }
  return result;
}

std::vector<double> scales(const LossScalerOptions& options, const std::vector<int>& pattern,
                           std::vector<std::int64_t>* counter = nullptr) {
  LossScaler scaler = value_or_die(LossScaler::create(options));
  return scales(scaler, pattern, counter);
}

// The sequences were made with torch.amp.GradScaler("cpu", ...) of PyTorch 2.15: per step
// scale(loss), a gradient of 1 or inf, step(optimizer), update(); then get_scale() and
// _get_growth_tracker().

TEST(LossScaler, GrowsAndBacksOffAsGradScaler) {
  std::vector<std::int64_t> counter;
  EXPECT_THAT(scales(no_limits(65536, 2), {0, 0, 1, 0, 0, 0}, &counter),
              ElementsAre(65536, 131072, 65536, 65536, 131072, 131072));
  EXPECT_THAT(counter, ElementsAre(1, 0, 0, 1, 0, 1));
}

TEST(LossScaler, OtherFactorsAsGradScaler) {
  LossScalerOptions options = no_limits(1000, 2);
  options.growth_factor = 1.5;
  options.backoff_factor = 0.3;
  std::vector<std::int64_t> counter;
  EXPECT_THAT(
      scales(options, {0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0}, &counter),
      ElementsAre(1000, 1500, 1500, 450, 450, 135, 40.5, 40.5, 60.75, 60.75, 91.125, 91.125));
  EXPECT_THAT(counter, ElementsAre(1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1));
}

TEST(LossScaler, RefusesGrowthBeyondFloat32AsGradScaler) {
  const double start = 4.253529586511731e37;  // 2^125
  EXPECT_THAT(scales(no_limits(start, 1), {0, 0, 0, 0, 0}),
              ElementsAre(2 * start, 4 * start, 4 * start, 4 * start, 4 * start));
  EXPECT_THAT(
      scales(no_limits(3e38, 1), {0, 0, 1, 0, 0}),
      ElementsAre(static_cast<float>(3e38), static_cast<float>(3e38), static_cast<float>(1.5e38),
                  static_cast<float>(3e38), static_cast<float>(3e38)));
}

TEST(LossScaler, DefaultsAreClamped) {
  LossScalerOptions options;
  options.growth_interval = 1;
  EXPECT_THAT(scales(options, {0, 0, 1, 0, 0}), ElementsAre(65536, 65536, 32768, 65536, 65536));
  options.init_scale = 4;
  EXPECT_THAT(scales(options, {1, 1, 1, 1, 0}), ElementsAre(2, 1, 1, 1, 2));
  options.max_scale = 6;  // no power of two: the clamp cuts growth short
  EXPECT_THAT(scales(options, {0, 0, 1}), ElementsAre(6, 6, 3));
}

TEST(LossScaler, EndlessOverflowNeverReachesZero) {
  for (LossScalerOptions options : {LossScalerOptions(), no_limits(4, 2000)}) {
    options.init_scale = 4;
    LossScaler scaler = value_or_die(LossScaler::create(options));
    for (int i = 0; i < 160; ++i) {
      scaler.update(true);
      ASSERT_GE(scaler.scale(), static_cast<float>(options.min_scale));
      ASSERT_TRUE(std::isfinite(scaler.inverse_scale()));
    }
    EXPECT_EQ(scaler.scale(), static_cast<float>(options.min_scale));
    EXPECT_EQ(scaler.skipped_steps(), 160);
  }
}

TEST(LossScaler, SaysWhenTrainingIsStuck) {
  LossScalerOptions options;
  options.init_scale = 2;
  options.max_stuck_steps = 3;
  LossScaler scaler = value_or_die(LossScaler::create(options));
  for (int i = 0; i < 3; ++i) scaler.update(true);  // 2 -> 1, then two at the lowest
  EXPECT_EQ(scaler.stuck_steps(), 2);
  EXPECT_THAT(scaler.check_progress(), IsOk());
  scaler.update(false);
  EXPECT_EQ(scaler.stuck_steps(), 0);
  for (int i = 0; i < 3; ++i) scaler.update(true, false);
  EXPECT_THAT(scaler.check_progress(),
              Rejects("3 steps in a row skipped at the lowest loss scale, 1: gradients hold inf or "
                      "NaN and 3 losses were not finite before scaling. Hint: lower the learning"));
}

TEST(LossScaler, NanLossesAreCountedApart) {
  LossScaler scaler = value_or_die(LossScaler::create(no_limits(65536, 2000)));
  scaler.update(false);
  for (int i = 0; i < 20; ++i) scaler.update(true, false);
  EXPECT_EQ(scaler.scale(), 0.0625F);  // as GradScaler: 20 halvings
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 0.0625F);
  EXPECT_EQ(scaler.clean_steps(), 1);
  EXPECT_EQ(scaler.nonfinite_losses(), 20);
  EXPECT_EQ(scaler.skipped_steps(), 20);
}

TEST(LossScaler, StaticAndOffNeverChange) {
  LossScalerOptions options;
  options.mode = LossScaleMode::kStatic;
  options.init_scale = 1024;
  options.growth_interval = 1;
  EXPECT_THAT(scales(options, {0, 1, 0, 1}), ElementsAre(1024, 1024, 1024, 1024));
  options.mode = LossScaleMode::kOff;
  EXPECT_THAT(scales(options, {0, 1, 0, 1}), ElementsAre(1, 1, 1, 1));
  LossScaler scaler;
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 1.0F);
  EXPECT_EQ(scaler.skipped_steps(), 1);
  options.mode = LossScaleMode::kStatic;
  options.max_stuck_steps = 1;
  scaler = value_or_die(LossScaler::create(options));
  scaler.update(true);
  EXPECT_THAT(scaler.check_progress(), Rejects("a fixed loss scale of 1024"));
}

// Apex's update_scale_hysteresis: the first hysteresis - 1 overflows of a row only stop the count
// of clean steps, later ones shrink the scale each time, a clean step starts anew.
TEST(LossScaler, Hysteresis) {
  LossScalerOptions options = no_limits(64, 2);
  options.hysteresis = 3;
  std::vector<std::int64_t> counter;
  EXPECT_THAT(scales(options, {0, 1, 1, 1, 1, 0, 1, 1, 0, 0}, &counter),
              ElementsAre(64, 64, 64, 32, 16, 16, 16, 16, 16, 32));
  EXPECT_THAT(counter, ElementsAre(1, 0, 0, 0, 0, 1, 0, 0, 1, 0));
}

TEST(LossScaler, InverseScaleIsRoundedOnce) {
  LossScalerOptions options;
  options.mode = LossScaleMode::kStatic;
  options.init_scale = 3;
  EXPECT_EQ(value_or_die(LossScaler::create(options)).inverse_scale(), 1.0F / 3.0F);
  options.init_scale = 65536;
  EXPECT_EQ(value_or_die(LossScaler::create(options)).inverse_scale(), 0x1p-16F);
}

TEST(LossScaler, SavesAndLoadsEveryField) {
  LossScalerOptions options;
  options.init_scale = 2048;
  options.growth_factor = 1.5;
  options.backoff_factor = 0.75;
  options.growth_interval = 4;
  options.min_scale = 0.25;
  options.max_scale = kInf;
  options.hysteresis = 2;
  options.max_stuck_steps = 7;
  LossScaler scaler = value_or_die(LossScaler::create(options));
  const std::vector<int> pattern = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1, 0};
  for (std::size_t at = 0; at <= pattern.size(); ++at) {
    const nlohmann::json saved = nlohmann::json::parse(scaler.save().dump());
    LossScaler loaded = value_or_die(LossScaler::load(saved));
    EXPECT_EQ(loaded.save(), scaler.save());
    const std::vector<int> rest(pattern.begin() + static_cast<std::ptrdiff_t>(at), pattern.end());
    LossScaler uninterrupted = scaler;
    EXPECT_EQ(scales(loaded, rest), scales(uninterrupted, rest));
    EXPECT_EQ(loaded.save(), uninterrupted.save());
    if (at < pattern.size()) scaler.update(pattern[at] != 0, at % 3 != 0);
  }
}

TEST(LossScaler, ResumesAsGradScalerDoes) {
  LossScaler scaler = value_or_die(LossScaler::create(no_limits(2048, 4)));
  scales(scaler, {0, 0, 0, 1, 0, 0});
  EXPECT_EQ(scaler.scale(), 1024);
  EXPECT_EQ(scaler.clean_steps(), 2);
  LossScaler resumed = value_or_die(LossScaler::load(scaler.save()));
  EXPECT_THAT(scales(resumed, {0, 0, 0, 0}), ElementsAre(1024, 2048, 2048, 2048));
}

TEST(LossScaler, StopsAfterSkipsInARow) {
  LossScalerOptions options;
  options.max_skips = 3;
  options.init_scale = 1024;
  LossScaler scaler = value_or_die(LossScaler::create(options));
  for (const bool overflow : {true, true, false, true, true}) scaler.update(overflow);
  EXPECT_EQ(scaler.skips_in_row(), 2);
  EXPECT_THAT(scaler.check_progress(), IsOk());
  scaler = value_or_die(LossScaler::load(scaler.save()));  // the row goes on
  scaler.update(true);
  EXPECT_THAT(scaler.check_progress("the gradient of 'w' holds NaN"),
              Rejects("3 steps in a row skipped, the loss scale fell to 32: the gradient of 'w' "
                      "holds NaN. Hint: "));
  options.mode = LossScaleMode::kOff;
  scaler = value_or_die(LossScaler::create(options));
  for (int i = 0; i < 3; ++i) scaler.update(true);
  EXPECT_THAT(scaler.check_progress(), Rejects("skipped without a loss scale"));
}

TEST(LossScaler, LoadRefusesWhatSaveNeverWrites) {
  const nlohmann::json good = value_or_die(LossScaler::create({})).save();
  const auto with = [&](const char* key, nlohmann::json value) {
    nlohmann::json changed = good;
    changed[key] = std::move(value);
    return LossScaler::load(changed);
  };
  for (const auto& [key, value] : good.items()) {
    nlohmann::json lacking = good;
    lacking.erase(key);
    if (key == "max_skips" || key == "skips_in_row") {
      EXPECT_THAT(LossScaler::load(lacking), IsOk()) << "older versions had no such key";
    } else {
      EXPECT_THAT(LossScaler::load(lacking), Rejects("key '" + key + "' is missing"));
    }
    EXPECT_THAT(with(key.c_str(), nullptr), Rejects("key '" + key + "'"));
  }
  EXPECT_THAT(with("scale", 0.0), Rejects("does not fit"));
  EXPECT_THAT(with("scale", "inf"), Rejects("does not fit"));
  EXPECT_THAT(with("scale", 131072), Rejects("does not fit"));
  EXPECT_THAT(with("scale", 1.00000001), Rejects("does not fit"));  // no float32
  EXPECT_THAT(with("clean_steps", 2000), Rejects("outside 0..1999"));
  EXPECT_THAT(with("clean_steps", -1), Rejects("outside"));
  EXPECT_THAT(with("hysteresis_left", 2), Rejects("outside 0..1"));
  EXPECT_THAT(with("mode", "sometimes"), Rejects("unknown 'sometimes'"));
  EXPECT_THAT(with("growth_factor", 0.5), Rejects("'growth'"));
  EXPECT_THAT(LossScaler::load(nlohmann::json::array()), Not(IsOk()));
}

TEST(LossScaler, ValidatesOptions) {
  const auto rejects = [](auto change, const std::string& text) {
    LossScalerOptions options;
    change(options);
    EXPECT_THAT(LossScaler::create(options), Rejects(text));
  };
  const double nan = std::nan("");
  rejects([](auto& o) { o.init_scale = 0; }, "'init': expected a number from 1.18e-38");
  rejects([&](auto& o) { o.init_scale = nan; }, "'init'");
  rejects([](auto& o) { o.init_scale = kInf; }, "'init'");
  rejects([](auto& o) { o.init_scale = -2; }, "'init'");
  rejects([](auto& o) { o.init_scale = 131072; }, "to the maximum 65536, got 131072");
  rejects([](auto& o) { o.init_scale = 0.5; }, "from the minimum 1");
  rejects([](auto& o) { o.growth_factor = 0.99; },
          "'growth': expected a finite factor of at least 1");
  rejects([](auto& o) { o.growth_factor = kInf; }, "'growth'");
  rejects([&](auto& o) { o.growth_factor = nan; }, "'growth'");
  rejects([](auto& o) { o.backoff_factor = 0; }, "'backoff'");
  rejects([](auto& o) { o.backoff_factor = 1.5; }, "'backoff'");
  rejects([](auto& o) { o.growth_interval = 0; }, "'growth-interval'");
  rejects([](auto& o) { o.min_scale = 0; }, "'min'");
  rejects([](auto& o) { o.min_scale = 1e-42; }, "'min'");  // its inverse would be infinite
  rejects([](auto& o) { o.max_scale = 0.5; }, "'max'");
  rejects([&](auto& o) { o.max_scale = nan; }, "'max'");
  rejects([](auto& o) { o.hysteresis = 0; }, "'hysteresis'");
  rejects([](auto& o) { o.max_stuck_steps = -1; }, "'stuck'");
  rejects([](auto& o) { o.max_skips = -1; }, "'max-skips'");
}

TEST(LossScaler, ParsesTheCommandLine) {
  LossScalerOptions options;
  EXPECT_THAT(parse_loss_scale("off", options), IsOk());
  EXPECT_EQ(options.mode, LossScaleMode::kOff);
  EXPECT_THAT(parse_loss_scale("static:128.5", options), IsOk());
  EXPECT_EQ(options.mode, LossScaleMode::kStatic);
  EXPECT_EQ(options.init_scale, 128.5);
  EXPECT_THAT(parse_loss_scale("dynamic", options), IsOk());
  EXPECT_EQ(options.mode, LossScaleMode::kDynamic);
  EXPECT_THAT(parse_loss_scale("static", options), Rejects("expected dynamic, static:F or off"));
  EXPECT_THAT(parse_loss_scale("static:12x", options), Rejects("got 'static:12x'"));
  EXPECT_THAT(parse_loss_scale("static:0", options), Rejects("'init'"));
  EXPECT_THAT(parse_loss_scale("static:nan", options), Rejects("'init'"));
}

}  // namespace
}  // namespace mezzo::runtime
