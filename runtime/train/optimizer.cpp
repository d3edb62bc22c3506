#include "runtime/train/optimizer.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/support/text.h"
#include "runtime/train/optimizer_arguments.h"

namespace mezzo::runtime {
namespace {

// Elements of one unit of work: small enough to share parameters between threads, large enough to
// hide the cost of handing it out. Part of the results' definition: measure() sums piece by piece.
constexpr std::int64_t kPieceElems = 16384;

bool is_rate(double value) { return value >= 0 && std::isfinite(value); }
bool is_share(double value) { return value >= 0 && value < 1; }

constexpr std::string_view kRate = "a number of at least 0";
constexpr std::string_view kShare = "a number in [0, 1)";

Status check_parameter(const OptimizerParameter& parameter,
                       std::span<const OptimizerGroup> groups) {
  const std::string where = "parameter '" + printable(parameter.name) + "': ";
  if (parameter.group < 0 || static_cast<std::size_t>(parameter.group) >= groups.size()) {
    return internal_error(where + "its optimizer group does not exist");
  }
  const bool frozen = groups[static_cast<std::size_t>(parameter.group)].frozen;
  const bool has_buffers = parameter.master != nullptr && (frozen || parameter.grad != nullptr);
  if (parameter.elems < 0 || (parameter.elems > 0 && !has_buffers)) {
    return internal_error(where + "a buffer is missing");
  }
  if (parameter.low != nullptr && !is_low(parameter.low_dtype)) {
    return internal_error(where + "a low-precision copy of type " +
                          std::string(dtype_name(parameter.low_dtype)));
  }
  return ok_status();
}

// Names of the state tensors; empty for none.
struct StateNames {
  std::string_view first;
  std::string_view second;
};
StateNames state_names(const OptimizerGroup& group) {
  if (group.frozen) return {};
  if (group.kind == OptimizerKind::kAdagrad) return {"sum", {}};
  if (group.kind != OptimizerKind::kSgd) return {"exp_avg", "exp_avg_sq"};
  return {group.momentum != 0 ? std::string_view("momentum_buffer") : std::string_view(), {}};
}

}  // namespace

Status check_group(const OptimizerGroup& group) {
  const auto bad = [](std::string_view name, std::string_view expected, double got) {
    return invalid_argument(std::string(name) + ": expected " + std::string(expected) + ", got " +
                            format_number(got));
  };
  if (!is_rate(group.lr)) return bad("lr", kRate, group.lr);
  if (!is_rate(group.weight_decay)) return bad("weight decay", kRate, group.weight_decay);
  if (group.kind == OptimizerKind::kSgd) {
    if (!is_share(group.momentum)) return bad("momentum", kShare, group.momentum);
    if (!is_share(group.dampening)) return bad("dampening", kShare, group.dampening);
    if (group.nesterov && group.momentum == 0)
      return bad("momentum", "more than 0 with Nesterov", group.momentum);
    if (group.nesterov && group.dampening != 0)
      return bad("dampening", "0 with Nesterov", group.dampening);
    return ok_status();
  }
  if (!is_rate(group.eps)) return bad("eps", kRate, group.eps);
  if (group.kind == OptimizerKind::kAdagrad) {
    if (!is_rate(group.lr_decay)) return bad("lr decay", kRate, group.lr_decay);
    if (!is_rate(group.initial_accumulator))
      return bad("initial accumulator", kRate, group.initial_accumulator);
    return ok_status();
  }
  if (!is_share(group.beta1)) return bad("beta1", kShare, group.beta1);
  if (!is_share(group.beta2)) return bad("beta2", kShare, group.beta2);
  return ok_status();
}

StatusOr<Optimizer> Optimizer::create(std::vector<OptimizerGroup> groups,
                                      std::vector<OptimizerParameter> parameters,
                                      const OptimizerOptions& options) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (const Status status = check_group(groups[i]); !status.ok())
      return invalid_argument("optimizer group " + std::to_string(i) + ": " + status.message());
  }
  if (!is_share(options.average_decay)) {
    return invalid_argument("moving average: decay: expected " + std::string(kShare) + ", got " +
                            format_number(options.average_decay));
  }
  bool any = false;
  for (const OptimizerParameter& parameter : parameters) {
    MEZZO_RETURN_IF_ERROR(check_parameter(parameter, groups));
    any = any || !groups[static_cast<std::size_t>(parameter.group)].frozen;
  }
  if (!any) {
    return invalid_argument(
        "nothing to train: every parameter is frozen or there is none. "
        "Hint: see --freeze and --train");
  }
  return Optimizer(std::move(groups), std::move(parameters), options);
}

Optimizer::Optimizer(std::vector<OptimizerGroup> groups, std::vector<OptimizerParameter> parameters,
                     const OptimizerOptions& options)
    : groups_(std::move(groups)),
      parameters_(std::move(parameters)),
      threads_(options.threads > 0 ? options.threads : omp_get_max_threads()),
      average_decay_(options.average_decay) {
  allocate_state();
  cut_pieces();
}

void Optimizer::allocate_state() {
  if (average_decay_ > 0) averages_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    OptimizerParameter& parameter = parameters_[i];
    const OptimizerGroup& group = group_of(parameter);
    const StateNames names = state_names(group);
    const auto elems = static_cast<std::size_t>(parameter.elems);
    const auto ensure = [&](std::string_view name, float*& buffer, double start) {
      if (name.empty()) {
        buffer = nullptr;
      } else if (buffer == nullptr) {
        buffer = owned_.emplace_back(elems, static_cast<float>(start)).data();
      }
    };
    const bool adagrad = group.kind == OptimizerKind::kAdagrad;
    ensure(names.first, parameter.first, adagrad ? group.initial_accumulator : 0.0);
    ensure(names.second, parameter.second, 0.0);
    if (average_decay_ > 0 && !group.frozen) averages_[i].resize(elems);
    has_lamb_ = has_lamb_ || (group.kind == OptimizerKind::kLamb && !group.frozen);
  }
}

void Optimizer::cut_pieces() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const OptimizerParameter& parameter = parameters_[i];
    if (group_of(parameter).frozen) continue;
    for (std::int64_t begin = 0; begin < parameter.elems; begin += kPieceElems) {
      pieces_.push_back(
          {static_cast<std::uint32_t>(i), begin, std::min(kPieceElems, parameter.elems - begin)});
    }
  }
  sums_.resize(pieces_.size());
  if (!has_lamb_) return;
  weight_sums_.resize(pieces_.size());
  update_sums_.resize(pieces_.size());
  trust_ratios_.resize(parameters_.size());
}

GradientStats Optimizer::measure() {
  const OptimizerLoops& loops = optimizer_loops();
  const auto count = static_cast<std::int64_t>(pieces_.size());
#pragma omp parallel for schedule(static) num_threads(threads_) if (count > 1)
  for (std::int64_t i = 0; i < count; ++i) {
    const Piece& piece = pieces_[static_cast<std::size_t>(i)];
    sums_[static_cast<std::size_t>(i)] =
        loops.sum_of_squares(parameters_[piece.parameter].grad + piece.begin, piece.elems);
  }
  GradientStats stats;
  for (const double sum : sums_) stats.sum_of_squares += sum;
  return stats;
}

void Optimizer::step(const GradientStats& stats, const OptimizerStep& settings) {
  ++applied_steps_;
  const float clip = clip_factor(stats.norm(settings.inverse_scale), settings.clip_norm);
  const auto count = static_cast<std::int64_t>(pieces_.size());
#pragma omp parallel for schedule(static) num_threads(threads_) if (count > 1)
  for (std::int64_t i = 0; i < count; ++i)
    update_piece(static_cast<std::size_t>(i), settings, clip);
  if (has_lamb_) apply_lamb(settings);
}

void Optimizer::update_piece(std::size_t index, const OptimizerStep& settings, float clip) {
  const OptimizerLoops& loops = optimizer_loops();
  const Piece& piece = pieces_[index];
  const OptimizerParameter& parameter = parameters_[piece.parameter];
  const OptimizerGroup& group = group_of(parameter);
  const double lr = group.lr * settings.lr_factor;
  switch (group.kind) {
    case OptimizerKind::kSgd: {
      auto arguments = with<SgdArguments>(kernels::sgd_coefficients(group, lr, applied_steps_));
      set_common(arguments, parameter, piece.begin, piece.elems, settings, clip);
      arguments.velocity = parameter.first != nullptr ? parameter.first + piece.begin : nullptr;
      loops.sgd(arguments);
      break;
    }
    case OptimizerKind::kAdagrad: {
      auto arguments =
          with<AdagradArguments>(kernels::adagrad_coefficients(group, lr, applied_steps_));
      set_common(arguments, parameter, piece.begin, piece.elems, settings, clip);
      arguments.sum = parameter.first + piece.begin;
      loops.adagrad(arguments);
      break;
    }
    case OptimizerKind::kLamb: {
      auto arguments = with<LambArguments>(kernels::lamb_coefficients(group, applied_steps_));
      set_common(arguments, parameter, piece.begin, piece.elems, settings, clip);
      arguments.mean = parameter.first + piece.begin;
      arguments.mean_square = parameter.second + piece.begin;
      const LambNorms norms = loops.lamb_moments(arguments);
      weight_sums_[index] = norms.weight;
      update_sums_[index] = norms.update;
      return;  // apply_lamb() does the rest
    }
    default: {
      auto arguments = with<AdamArguments>(kernels::adam_coefficients(group, lr, applied_steps_));
      set_common(arguments, parameter, piece.begin, piece.elems, settings, clip);
      arguments.mean = parameter.first + piece.begin;
      arguments.mean_square = parameter.second + piece.begin;
      loops.adam(arguments);
    }
  }
  update_average(piece);
}

void Optimizer::apply_lamb(const OptimizerStep& settings) {
  // Pieces of one parameter follow each other.
  for (std::size_t i = 0; i < pieces_.size();) {
    const std::uint32_t parameter = pieces_[i].parameter;
    double weight = 0, update = 0;
    for (; i < pieces_.size() && pieces_[i].parameter == parameter; ++i) {
      weight += weight_sums_[i];
      update += update_sums_[i];
    }
    trust_ratios_[parameter] = kernels::trust_ratio(weight, update);
  }
  const auto count = static_cast<std::int64_t>(pieces_.size());
#pragma omp parallel for schedule(static) num_threads(threads_) if (count > 1)
  for (std::int64_t i = 0; i < count; ++i) {
    const Piece& piece = pieces_[static_cast<std::size_t>(i)];
    const OptimizerParameter& parameter = parameters_[piece.parameter];
    const OptimizerGroup& group = group_of(parameter);
    if (group.kind != OptimizerKind::kLamb) continue;
    auto arguments = with<LambArguments>(kernels::lamb_coefficients(group, applied_steps_));
    set_common(arguments, parameter, piece.begin, piece.elems, settings, 1.0F);
    arguments.mean = parameter.first + piece.begin;
    arguments.mean_square = parameter.second + piece.begin;
    arguments.rate =
        kernels::lamb_rate(group.lr * settings.lr_factor, trust_ratios_[piece.parameter]);
    optimizer_loops().lamb_apply(arguments);
    update_average(piece);
  }
}

void Optimizer::update_average(const Piece& piece) {
  if (average_decay_ <= 0) return;
  float* average = averages_[piece.parameter].data() + piece.begin;
  const float* weights = parameters_[piece.parameter].master + piece.begin;
  if (applied_steps_ == 1) {
    std::copy_n(weights, piece.elems, average);
  } else {
    optimizer_loops().average(average, weights, static_cast<float>(1.0 - average_decay_),
                              piece.elems);
  }
}

void Optimizer::swap_averages() {
  if (applied_steps_ == 0) return;
  for (std::size_t i = 0; i < averages_.size(); ++i)
    std::swap_ranges(averages_[i].begin(), averages_[i].end(), parameters_[i].master);
}

void Optimizer::refresh_low() {
  for (const OptimizerParameter& parameter : parameters_) {
    if (parameter.low == nullptr) continue;
    optimizer_loops().write_low(parameter.master, parameter.low, parameter.low_dtype,
                                parameter.elems);
  }
}

std::vector<Optimizer::State> Optimizer::states() {
  std::vector<State> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const OptimizerParameter& parameter = parameters_[i];
    const StateNames names = state_names(groups_[static_cast<std::size_t>(parameter.group)]);
    const auto elems = static_cast<std::size_t>(parameter.elems);
    if (!names.first.empty()) result.push_back({i, names.first, {parameter.first, elems}});
    if (!names.second.empty()) result.push_back({i, names.second, {parameter.second, elems}});
  }
  return result;
}

std::vector<Optimizer::State> Optimizer::averages() {
  std::vector<State> result;
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    if (!group_of(parameters_[i]).frozen) result.push_back({i, "average", averages_[i]});
  }
  return result;
}

std::vector<Optimizer::BadGradient> Optimizer::bad_gradients() const {
  std::vector<BadGradient> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const OptimizerParameter& parameter = parameters_[i];
    if (group_of(parameter).frozen) continue;
    BadGradient bad = {i, 0, 0};
    for (std::int64_t at = 0; at < parameter.elems; ++at) {
      bad.infs += std::isinf(parameter.grad[at]) ? 1 : 0;
      bad.nans += std::isnan(parameter.grad[at]) ? 1 : 0;
    }
    if (bad.infs + bad.nans > 0) result.push_back(bad);
  }
  return result;
}

double default_eps(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdagrad: return 1e-10;
    case OptimizerKind::kLamb: return 1e-6;
    default: return 1e-8;
  }
}

namespace {
constexpr std::array<std::string_view, 5> kNames = {"sgd", "adam", "adamw", "lamb", "adagrad"};
}  // namespace

std::vector<std::string> optimizer_names() { return {kNames.begin(), kNames.end()}; }

StatusOr<OptimizerKind> parse_optimizer(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found != kNames.end()) return static_cast<OptimizerKind>(found - kNames.begin());
  const std::vector<std::string> all = optimizer_names();
  return invalid_argument("--optimizer: unknown '" + printable(name) + "'." +
                          did_you_mean(name, all) + " There are: " + join(all, ", "));
}

std::string_view optimizer_name(OptimizerKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace mezzo::runtime
