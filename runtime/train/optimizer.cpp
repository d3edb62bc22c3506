#include "runtime/train/optimizer.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/text.h"
#include "runtime/train/optimizer_loops.h"

namespace mezzo::runtime {
namespace {

// Elements of one unit of work: small enough to share parameters between threads, large enough to
// hide the cost of handing it out. Part of the results' definition: measure() sums piece by piece.
constexpr std::int64_t kPieceElems = 16384;

bool is_rate(double value) { return value >= 0 && std::isfinite(value); }

Status check_group(const OptimizerGroup& group, std::size_t index) {
  const auto bad = [&](std::string_view name, std::string_view expected, double got) {
    return invalid_argument("optimizer group " + std::to_string(index) + ": " + std::string(name) +
                            ": expected " + std::string(expected) + ", got " + format_number(got));
  };
  constexpr std::string_view kRate = "a number of at least 0";
  if (!is_rate(group.lr)) return bad("lr", kRate, group.lr);
  if (!is_rate(group.weight_decay)) return bad("weight decay", kRate, group.weight_decay);
  if (group.kind == OptimizerKind::kSgd) {
    if (!is_rate(group.momentum)) return bad("momentum", kRate, group.momentum);
    if (group.nesterov && group.momentum == 0) {
      return bad("momentum", "more than 0 with Nesterov", group.momentum);
    }
    return ok_status();
  }
  constexpr std::string_view kBeta = "a number in [0, 1)";
  if (!(group.beta1 >= 0 && group.beta1 < 1)) return bad("beta1", kBeta, group.beta1);
  if (!(group.beta2 >= 0 && group.beta2 < 1)) return bad("beta2", kBeta, group.beta2);
  if (!is_rate(group.eps)) return bad("eps", kRate, group.eps);
  return ok_status();
}

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
  if (group.kind != OptimizerKind::kSgd) return {"exp_avg", "exp_avg_sq"};
  return {group.momentum != 0 ? std::string_view("momentum_buffer") : std::string_view(), {}};
}

SgdArguments sgd_arguments(const OptimizerGroup& group, const OptimizerStep& settings) {
  SgdArguments arguments = {};
  arguments.lr = static_cast<float>(group.lr * settings.lr_factor);
  arguments.weight_decay = static_cast<float>(group.weight_decay);
  arguments.momentum = static_cast<float>(group.momentum);
  arguments.nesterov = group.nesterov;
  return arguments;
}

AdamArguments adam_arguments(const OptimizerGroup& group, const OptimizerStep& settings,
                             std::int64_t step) {
  const auto t = static_cast<double>(step);
  const double lr = group.lr * settings.lr_factor;
  const bool decoupled = group.kind == OptimizerKind::kAdamW;
  AdamArguments arguments = {};
  arguments.weight_decay = decoupled ? 0.0F : static_cast<float>(group.weight_decay);
  arguments.keep = decoupled ? static_cast<float>(1.0 - lr * group.weight_decay) : 1.0F;
  arguments.one_minus_beta1 = static_cast<float>(1.0 - group.beta1);
  arguments.beta2 = static_cast<float>(group.beta2);
  arguments.one_minus_beta2 = static_cast<float>(1.0 - group.beta2);
  arguments.step_size = static_cast<float>(lr / (1.0 - std::pow(group.beta1, t)));
  arguments.root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(group.beta2, t)));
  arguments.eps = static_cast<float>(group.eps);
  return arguments;
}

// Sets what the two argument structs have in common for elements [begin, begin + elems).
template <typename Arguments>
void set_common(Arguments& arguments, const OptimizerParameter& parameter, std::int64_t begin,
                std::int64_t elems, const OptimizerStep& settings, float factor) {
  arguments.w = parameter.master + begin;
  arguments.g = parameter.grad + begin;
  arguments.low = parameter.low != nullptr ? parameter.low + begin : nullptr;
  arguments.low_dtype = parameter.low != nullptr ? parameter.low_dtype : DType::kNone;
  arguments.n = elems;
  arguments.inverse_scale = settings.inverse_scale;
  arguments.clip_factor = factor;
  arguments.clip_value = settings.clip_value > 0 ? static_cast<float>(settings.clip_value)
                                                 : std::numeric_limits<float>::infinity();
}

}  // namespace

StatusOr<Optimizer> Optimizer::create(std::vector<OptimizerGroup> groups,
                                      std::vector<OptimizerParameter> parameters, int threads) {
  for (std::size_t i = 0; i < groups.size(); ++i) MEZZO_RETURN_IF_ERROR(check_group(groups[i], i));
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
  return Optimizer(std::move(groups), std::move(parameters), threads);
}

Optimizer::Optimizer(std::vector<OptimizerGroup> groups, std::vector<OptimizerParameter> parameters,
                     int threads)
    : groups_(std::move(groups)),
      parameters_(std::move(parameters)),
      threads_(threads > 0 ? threads : omp_get_max_threads()) {
  allocate_state();
  cut_pieces();
}

void Optimizer::allocate_state() {
  for (OptimizerParameter& parameter : parameters_) {
    const StateNames names = state_names(groups_[static_cast<std::size_t>(parameter.group)]);
    const auto ensure = [&](std::string_view name, float*& buffer) {
      if (name.empty()) {
        buffer = nullptr;
      } else if (buffer == nullptr) {
        buffer = owned_.emplace_back(static_cast<std::size_t>(parameter.elems)).data();
      }
    };
    ensure(names.first, parameter.first);
    ensure(names.second, parameter.second);
  }
}

void Optimizer::cut_pieces() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const OptimizerParameter& parameter = parameters_[i];
    if (groups_[static_cast<std::size_t>(parameter.group)].frozen) continue;
    for (std::int64_t begin = 0; begin < parameter.elems; begin += kPieceElems) {
      pieces_.push_back(
          {static_cast<std::uint32_t>(i), begin, std::min(kPieceElems, parameter.elems - begin)});
    }
  }
  sums_.resize(pieces_.size());
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
  const OptimizerLoops& loops = optimizer_loops();
  const float factor = clip_factor(stats.norm(settings.inverse_scale), settings.clip_norm);
  const auto count = static_cast<std::int64_t>(pieces_.size());
#pragma omp parallel for schedule(static) num_threads(threads_) if (count > 1)
  for (std::int64_t i = 0; i < count; ++i) {
    const Piece& piece = pieces_[static_cast<std::size_t>(i)];
    const OptimizerParameter& parameter = parameters_[piece.parameter];
    const OptimizerGroup& group = groups_[static_cast<std::size_t>(parameter.group)];
    if (group.kind == OptimizerKind::kSgd) {
      SgdArguments arguments = sgd_arguments(group, settings);
      set_common(arguments, parameter, piece.begin, piece.elems, settings, factor);
      if (parameter.first != nullptr) arguments.velocity = parameter.first + piece.begin;
      loops.sgd(arguments);
    } else {
      AdamArguments arguments = adam_arguments(group, settings, applied_steps_);
      set_common(arguments, parameter, piece.begin, piece.elems, settings, factor);
      arguments.mean = parameter.first + piece.begin;
      arguments.mean_square = parameter.second + piece.begin;
      loops.adam(arguments);
    }
  }
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

StatusOr<OptimizerKind> parse_optimizer(std::string_view name) {
  const std::vector<std::string> all = {"sgd", "adam", "adamw"};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == name) return static_cast<OptimizerKind>(i);
  }
  return invalid_argument("--optimizer: unknown '" + printable(name) + "'." +
                          did_you_mean(name, all) + " There are: " + join(all, ", "));
}

std::string_view optimizer_name(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdam: return "adam";
    case OptimizerKind::kAdamW: return "adamw";
    default: return "sgd";
  }
}

}  // namespace mezzo::runtime
