#include "runtime/cuda/training_tables.h"

#include <algorithm>
#include <limits>
#include <string>

namespace mezzo::runtime::cuda {
namespace {

using kernels::cuda::kTrainingPieceElems;
using kernels::cuda::TrainingControl;
using kernels::cuda::TrainingGroup;
using kernels::cuda::TrainingParameter;
using kernels::cuda::TrainingPiece;
using kernels::cuda::TrainingState;

constexpr std::uintptr_t kVectorBytes = 16;  // the kernels read and write as much at once

// Float32 buffers of the device lie one behind the other.
class Block {
 public:
  // REQUIRES: elems >= 0.
  std::uint64_t add(std::int64_t elems) {
    const std::uint64_t offset = elems_;
    elems_ += (static_cast<std::uint64_t>(elems) + kFloats - 1) / kFloats * kFloats;
    return offset;
  }
  std::uint64_t elems() const { return elems_; }

 private:
  static constexpr std::uint64_t kFloats = 64;  // of 256 bytes
  std::uint64_t elems_ = 0;
};

bool aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kVectorBytes == 0;
}

void cut(std::vector<TrainingPiece>& pieces, std::int64_t elems, std::size_t index) {
  for (std::int64_t begin = 0; begin < elems; begin += kTrainingPieceElems) {
    pieces.push_back({begin,
                      static_cast<std::int32_t>(std::min(kTrainingPieceElems, elems - begin)),
                      static_cast<std::int32_t>(index)});
  }
}

}  // namespace

template <typename T>
StatusOr<T*> TrainingMemory::allocate(Device& device, std::uint64_t count, std::string_view what) {
  if (count == 0) return static_cast<T*>(nullptr);
  MEZZO_ASSIGN_OR_RETURN(auto block, device.allocate(count * sizeof(T), what));
  bytes_ += block->bytes();
  memory_.push_back(std::move(block));
  return reinterpret_cast<T*>(memory_.back()->data());
}

template <typename T>
StatusOr<T*> TrainingMemory::table(Device& device, const std::vector<T>& rows) {
  MEZZO_ASSIGN_OR_RETURN(T * on_device, allocate<T>(device, rows.size(), "the optimizer's tables"));
  MEZZO_RETURN_IF_ERROR(device.copy_to_device(on_device, rows.data(), rows.size() * sizeof(T)));
  return on_device;
}

Status TrainingMemory::check(const DeviceTrainingSpec& spec) const {
  const auto bad = [](const std::string& what) {
    return internal_error("training on a device: " + what);
  };
  if (spec.optimizers < 1 || spec.optimizers > kernels::kMostOptimizers)
    return bad(std::to_string(spec.optimizers) + " optimizers");
  if (spec.loss == nullptr || spec.loss_gradient == nullptr || spec.fault == nullptr)
    return bad("a scalar is missing");
  for (const auto& group : spec.groups) {
    if (group.optimizer < -1 || group.optimizer >= spec.optimizers) return bad("a group's number");
  }
  for (const auto& p : spec.parameters) {
    if (p.group < 0 || static_cast<std::size_t>(p.group) >= spec.groups.size() || p.elems < 0)
      return bad("a parameter's group or size");
    const bool trained = spec.groups[static_cast<std::size_t>(p.group)].optimizer >= 0;
    if (p.elems > 0 && (p.master == nullptr || (trained && p.gradient == nullptr)))
      return bad("a parameter's buffer is missing");
    if (!aligned(p.master) || !aligned(p.gradient) || !aligned(p.low))
      return bad("a parameter's buffer is not aligned");
  }
  for (const auto& s : spec.states) {
    if (s.elems < 0 || s.current == nullptr || s.next == nullptr || !aligned(s.current) ||
        !aligned(s.next)) {
      return bad("a state's buffer");
    }
  }
  return ok_status();
}

// Optimizer state, averages and sums, by parameter.
Status TrainingMemory::add_parameters(Device& device, const DeviceTrainingSpec& spec) {
  Block state, sums;
  struct Offsets {
    std::uint64_t first = 0, second = 0, average = 0, sum = 0;
  };
  std::vector<Offsets> offsets;
  const auto trained = [&](const DeviceTrainingSpec::Parameter& p) {
    return spec.groups[static_cast<std::size_t>(p.group)].optimizer >= 0;
  };
  for (const auto& p : spec.parameters) {
    Offsets& at = offsets.emplace_back();
    if (!trained(p)) continue;
    if (p.has_first) at.first = state.add(p.elems);
    if (p.has_second) at.second = state.add(p.elems);
    if (spec.average_decay > 0) at.average = state.add(p.elems);
    if (spec.accumulate > 1) at.sum = sums.add(p.elems);
  }
  MEZZO_ASSIGN_OR_RETURN(float* const states,
                         allocate<float>(device, state.elems(), "the optimizer's state"));
  MEZZO_ASSIGN_OR_RETURN(float* const totals,
                         allocate<float>(device, sums.elems(), "sums of gradients"));
  for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
    const DeviceTrainingSpec::Parameter& p = spec.parameters[i];
    TrainingParameter& row = parameters_.emplace_back();
    row.elems = p.elems;
    row.master = static_cast<float*>(p.master);
    row.low = static_cast<std::uint16_t*>(p.low);
    row.low_is_bfloat16 = p.low_dtype == DType::kBFloat16;
    row.group = p.group;
    if (!trained(p)) continue;
    row.optimizer = spec.groups[static_cast<std::size_t>(p.group)].optimizer;
    row.gradient = static_cast<const float*>(p.gradient);
    if (p.elems == 0) continue;
    if (p.has_first) row.first = states + offsets[i].first;
    if (p.has_second) row.second = states + offsets[i].second;
    if (spec.average_decay > 0) row.average = states + offsets[i].average;
    if (spec.accumulate > 1) row.sum = totals + offsets[i].sum;
  }
  return ok_status();
}

Status TrainingMemory::add_states(Device& device, const DeviceTrainingSpec& spec) {
  Block before;
  std::vector<std::uint64_t> offsets;
  for (const auto& s : spec.states) offsets.push_back(before.add(s.elems));
  float* kept = nullptr;
  if (spec.accumulate > 1) {
    MEZZO_ASSIGN_OR_RETURN(
        kept, allocate<float>(device, before.elems(), "running statistics before a step"));
  }
  std::vector<TrainingState> states;
  std::vector<TrainingPiece> pieces;
  for (std::size_t i = 0; i < spec.states.size(); ++i) {
    const DeviceTrainingSpec::State& s = spec.states[i];
    states.push_back({static_cast<float*>(s.current), static_cast<const float*>(s.next),
                      kept != nullptr ? kept + offsets[i] : nullptr});
    cut(pieces, s.elems, i);
  }
  tables_.state_piece_count = static_cast<std::int32_t>(pieces.size());
  MEZZO_ASSIGN_OR_RETURN(tables_.states, table(device, states));
  MEZZO_ASSIGN_OR_RETURN(tables_.state_pieces, table(device, pieces));
  return ok_status();
}

// By optimizer, frozen parameters last.
Status TrainingMemory::add_pieces(Device& device, const DeviceTrainingSpec& spec) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::int64_t count = 0;
  for (const TrainingParameter& p : parameters_) count += p.elems / kTrainingPieceElems + 1;
  if (count > kMost) return unimplemented("more parameters than training on a device counts");
  std::vector<TrainingPiece> pieces;
  std::vector<std::int32_t> ends;
  const auto add = [&](int optimizer) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      TrainingParameter& p = parameters_[i];
      if (p.optimizer != optimizer) continue;
      p.first_piece = static_cast<std::int32_t>(pieces.size());
      cut(pieces, p.elems, i);
      p.pieces = static_cast<std::int32_t>(pieces.size()) - p.first_piece;
    }
  };
  for (int optimizer = 0; optimizer < spec.optimizers; ++optimizer) {
    add(optimizer);
    ends.push_back(static_cast<std::int32_t>(pieces.size()));
  }
  tables_.trained_pieces = ends.back();
  add(-1);
  tables_.piece_count = static_cast<std::int32_t>(pieces.size());
  tables_.parameter_count = static_cast<std::int32_t>(parameters_.size());
  MEZZO_ASSIGN_OR_RETURN(tables_.pieces, table(device, pieces));
  MEZZO_ASSIGN_OR_RETURN(tables_.piece_ends, table(device, ends));
  MEZZO_ASSIGN_OR_RETURN(tables_.parameters, table(device, parameters_));
  const auto trained = static_cast<std::uint64_t>(tables_.trained_pieces);
  constexpr std::string_view kWhat = "the optimizer's sums";
  MEZZO_ASSIGN_OR_RETURN(tables_.sums, allocate<double>(device, trained, kWhat));
  MEZZO_ASSIGN_OR_RETURN(tables_.bad, allocate<kernels::cuda::BadCounts>(device, trained, kWhat));
  const bool lamb = std::ranges::any_of(spec.groups, [](const auto& group) {
    return group.optimizer >= 0 && group.settings.kind == kernels::OptimizerKind::kLamb;
  });
  if (!lamb) return ok_status();
  MEZZO_ASSIGN_OR_RETURN(tables_.lamb_sums,
                         allocate<kernels::cuda::LambSums>(device, trained, kWhat));
  MEZZO_ASSIGN_OR_RETURN(tables_.lamb_rates, allocate<float>(device, parameters_.size(), kWhat));
  return ok_status();
}

void TrainingMemory::set_options(const DeviceTrainingSpec& spec) {
  tables_.optimizers = spec.optimizers;
  tables_.loss = static_cast<const float*>(spec.loss);
  tables_.loss_gradient = static_cast<float*>(spec.loss_gradient);
  tables_.random_counter = static_cast<std::int64_t*>(spec.random_counter);
  tables_.fault = static_cast<kernels::DeviceFault*>(spec.fault);
  tables_.loss_scale = spec.loss_scale;
  tables_.schedule = spec.schedule;
  tables_.accumulate = spec.accumulate;
  tables_.clip_norm = spec.clip_norm;
  tables_.clip_value = spec.clip_value;
  tables_.average_decay = spec.average_decay;
  tables_.abort_on_overflow = spec.abort_on_overflow;
}

Status TrainingMemory::create(Device& device, const DeviceTrainingSpec& spec) {
  MEZZO_RETURN_IF_ERROR(check(spec));
  MEZZO_RETURN_IF_ERROR(add_parameters(device, spec));
  MEZZO_RETURN_IF_ERROR(add_states(device, spec));
  MEZZO_RETURN_IF_ERROR(add_pieces(device, spec));
  std::vector<TrainingGroup> groups;
  for (const auto& group : spec.groups)
    groups.push_back({group.settings, std::max(group.optimizer, 0)});
  tables_.group_count = static_cast<std::int32_t>(groups.size());
  MEZZO_ASSIGN_OR_RETURN(tables_.groups, table(device, groups));
  MEZZO_ASSIGN_OR_RETURN(tables_.group_steps, allocate<kernels::cuda::GroupStep>(
                                                  device, groups.size(), "the optimizer's tables"));
  const std::vector<TrainingControl> control(1);
  MEZZO_ASSIGN_OR_RETURN(tables_.control, table(device, control));
  const std::vector<kernels::StepRecord> record(1);
  MEZZO_ASSIGN_OR_RETURN(tables_.record, table(device, record));
  set_options(spec);
  return ok_status();
}

}  // namespace mezzo::runtime::cuda
