#include "runtime/train/loss_scaler.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "compiler/support/json_util.h"
#include "compiler/support/text.h"

namespace mezzo::runtime {
namespace {

using nlohmann::json;

constexpr float kSmallest = std::numeric_limits<float>::min();
constexpr float kLargest = std::numeric_limits<float>::max();

constexpr std::array<std::string_view, 3> kModeNames = {"off", "static", "dynamic"};

Status bad_option(std::string_view name, std::string_view expected, double got) {
  return invalid_argument("loss scale option '" + std::string(name) + "': expected " +
                          std::string(expected) + ", got " + format_number(got));
}

bool is_scale(double value) { return value >= kSmallest && value <= kLargest; }

StatusOr<LossScalerOptions> load_options(const json& saved) {
  LossScalerOptions options;
  MEZZO_ASSIGN_OR_RETURN(const std::string mode, json_string(saved, "mode"));
  const auto row = std::find(kModeNames.begin(), kModeNames.end(), mode);
  if (row == kModeNames.end())
    return invalid_argument("key 'mode': unknown '" + printable(mode) + "'");
  options.mode = static_cast<LossScaleMode>(row - kModeNames.begin());
  MEZZO_ASSIGN_OR_RETURN(options.init_scale, json_number(saved, "init_scale"));
  MEZZO_ASSIGN_OR_RETURN(options.growth_factor, json_number(saved, "growth_factor"));
  MEZZO_ASSIGN_OR_RETURN(options.backoff_factor, json_number(saved, "backoff_factor"));
  MEZZO_ASSIGN_OR_RETURN(options.growth_interval, json_int(saved, "growth_interval"));
  MEZZO_ASSIGN_OR_RETURN(options.min_scale, json_number(saved, "min_scale"));
  MEZZO_ASSIGN_OR_RETURN(options.max_scale, json_number(saved, "max_scale"));
  MEZZO_ASSIGN_OR_RETURN(options.hysteresis, json_int(saved, "hysteresis"));
  MEZZO_ASSIGN_OR_RETURN(options.max_stuck_steps, json_int(saved, "max_stuck_steps"));
  // Missing in checkpoints of versions that had no such option.
  if (saved.contains("max_skips")) {
    MEZZO_ASSIGN_OR_RETURN(options.max_skips, json_int(saved, "max_skips"));
  }
  MEZZO_RETURN_IF_ERROR(validate(options));
  return options;
}

// A counter in [0, most].
StatusOr<std::int64_t> load_count(const json& saved, std::string_view key, std::int64_t most) {
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t count, json_int(saved, key));
  if (count < 0 || count > most) {
    return invalid_argument("key '" + std::string(key) + "': " + std::to_string(count) +
                            " is outside 0.." + std::to_string(most));
  }
  return count;
}

}  // namespace

Status validate(const LossScalerOptions& options) {
  if (options.mode == LossScaleMode::kOff) return ok_status();
  if (!is_scale(options.init_scale)) {
    return bad_option("init", "a number from 1.18e-38 to 3.4e38", options.init_scale);
  }
  if (options.max_stuck_steps < 0) {
    return bad_option("stuck", "0 or more steps", static_cast<double>(options.max_stuck_steps));
  }
  if (options.max_skips < 0) {
    return bad_option("max-skips", "0 or more steps", static_cast<double>(options.max_skips));
  }
  if (options.mode == LossScaleMode::kStatic) return ok_status();
  if (!(options.growth_factor >= 1.0) || std::isinf(options.growth_factor)) {
    return bad_option("growth", "a finite factor of at least 1", options.growth_factor);
  }
  if (!(options.backoff_factor > 0.0 && options.backoff_factor <= 1.0)) {
    return bad_option("backoff", "a factor in (0, 1]", options.backoff_factor);
  }
  if (options.growth_interval < 1) {
    return bad_option("growth-interval", "at least 1 step",
                      static_cast<double>(options.growth_interval));
  }
  if (!is_scale(options.min_scale)) {
    return bad_option("min", "a number from 1.18e-38 to 3.4e38", options.min_scale);
  }
  if (!(options.max_scale >= options.min_scale)) {
    return bad_option("max", "at least the minimum, " + format_number(options.min_scale),
                      options.max_scale);
  }
  if (options.init_scale < options.min_scale || options.init_scale > options.max_scale) {
    return bad_option("init",
                      "a number from the minimum " + format_number(options.min_scale) +
                          " to the maximum " + format_number(options.max_scale),
                      options.init_scale);
  }
  if (options.hysteresis < 1) {
    return bad_option("hysteresis", "at least 1", static_cast<double>(options.hysteresis));
  }
  return ok_status();
}

LossScaler::LossScaler() { options_.mode = LossScaleMode::kOff; }

LossScaler::LossScaler(const LossScalerOptions& options) : options_(options) {
  if (options.mode != LossScaleMode::kOff) state_.scale = static_cast<float>(options.init_scale);
  state_.hysteresis_left = options.hysteresis;
}

StatusOr<LossScaler> LossScaler::create(const LossScalerOptions& options) {
  MEZZO_RETURN_IF_ERROR(validate(options));
  return LossScaler(options);
}

Status LossScaler::check_progress(std::string_view cause) const {
  const bool stuck = kernels::is_stuck(options_, state_);
  if (!stuck && !kernels::has_too_many_skips(options_, state_)) return ok_status();
  const bool dynamic = options_.mode == LossScaleMode::kDynamic;
  std::string text =
      std::to_string(stuck ? state_.stuck_steps : state_.skips_in_row) + " steps in a row skipped";
  if (options_.mode == LossScaleMode::kOff) {
    text += " without a loss scale";
  } else if (!stuck && dynamic) {
    text += ", the loss scale fell to " + format_number(state_.scale);
  } else {
    text += (dynamic ? " at the lowest loss scale, " : " at a fixed loss scale of ") +
            format_number(state_.scale);
  }
  text += ": " + (cause.empty() ? std::string("gradients hold inf or NaN") : std::string(cause));
  if (state_.nonfinite_losses > 0)
    text += " and " + std::to_string(state_.nonfinite_losses) +
            " losses were not finite before scaling";
  text += ". Hint: lower the learning rate, clip gradients";
  if (options_.mode != LossScaleMode::kOff) text += ", use --precision bf16";
  if (stuck && dynamic) text += ", or lower --loss-scale-min";
  if (options_.mode == LossScaleMode::kStatic) text += ", or use --loss-scale dynamic";
  if (!stuck) text += ", or raise --max-skips";
  return invalid_argument(text);
}

json LossScaler::save() const {
  return {{"mode", loss_scale_mode_name(options_.mode)},
          {"init_scale", json_from_number(options_.init_scale)},
          {"growth_factor", json_from_number(options_.growth_factor)},
          {"backoff_factor", json_from_number(options_.backoff_factor)},
          {"growth_interval", options_.growth_interval},
          {"min_scale", json_from_number(options_.min_scale)},
          {"max_scale", json_from_number(options_.max_scale)},
          {"hysteresis", options_.hysteresis},
          {"max_stuck_steps", options_.max_stuck_steps},
          {"max_skips", options_.max_skips},
          {"scale", static_cast<double>(state_.scale)},
          {"clean_steps", state_.clean_steps},
          {"hysteresis_left", state_.hysteresis_left},
          {"skipped_steps", state_.skipped_steps},
          {"stuck_steps", state_.stuck_steps},
          {"skips_in_row", state_.skips_in_row},
          {"nonfinite_losses", state_.nonfinite_losses}};
}

StatusOr<LossScaler> LossScaler::load(const json& saved) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max() - 1;
  MEZZO_ASSIGN_OR_RETURN(const LossScalerOptions options, load_options(saved));
  LossScaler scaler(options);
  MEZZO_ASSIGN_OR_RETURN(const double scale, json_number(saved, "scale"));
  const bool dynamic = options.mode == LossScaleMode::kDynamic;
  // The clamp was applied in double, before rounding to float.
  const bool fits =
      dynamic ? scale >= static_cast<float>(options.min_scale) &&
                    scale <= static_cast<float>(std::min<double>(options.max_scale, kLargest))
              : scale == static_cast<double>(scaler.state_.scale);
  if (!fits || static_cast<double>(static_cast<float>(scale)) != scale) {
    return invalid_argument("key 'scale': " + format_number(scale) + " does not fit the options");
  }
  scaler.state_.scale = static_cast<float>(scale);
  MEZZO_ASSIGN_OR_RETURN(scaler.state_.clean_steps,
                         load_count(saved, "clean_steps", options.growth_interval - 1));
  MEZZO_ASSIGN_OR_RETURN(scaler.state_.hysteresis_left,
                         load_count(saved, "hysteresis_left", options.hysteresis));
  MEZZO_ASSIGN_OR_RETURN(scaler.state_.skipped_steps, load_count(saved, "skipped_steps", kMost));
  MEZZO_ASSIGN_OR_RETURN(scaler.state_.stuck_steps, load_count(saved, "stuck_steps", kMost));
  MEZZO_ASSIGN_OR_RETURN(scaler.state_.nonfinite_losses,
                         load_count(saved, "nonfinite_losses", kMost));
  if (saved.contains("skips_in_row")) {
    MEZZO_ASSIGN_OR_RETURN(scaler.state_.skips_in_row, load_count(saved, "skips_in_row", kMost));
  }
  return scaler;
}

std::string_view loss_scale_mode_name(LossScaleMode mode) {
  return kModeNames[static_cast<std::size_t>(mode)];
}

Status parse_loss_scale(std::string_view text, LossScalerOptions& options) {
  constexpr std::string_view kStaticPrefix = "static:";
  if (text == "off") {
    options.mode = LossScaleMode::kOff;
    return ok_status();
  }
  if (text == "dynamic") {
    options.mode = LossScaleMode::kDynamic;
    return ok_status();
  }
  if (text.starts_with(kStaticPrefix)) {
    const std::string_view number = text.substr(kStaticPrefix.size());
    double factor = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), factor);
    if (error == std::errc() && end == number.data() + number.size()) {
      options.mode = LossScaleMode::kStatic;
      options.init_scale = factor;
      return validate(options);
    }
  }
  return invalid_argument("--loss-scale: expected dynamic, static:F or off, got '" +
                          printable(text) + "'");
}

}  // namespace mezzo::runtime
