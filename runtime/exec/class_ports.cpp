#include "runtime/exec/class_ports.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace mezzo::runtime {
namespace {

bool has_dtype(const proto::Tensor& tensor, DType dtype) {
  return tensor.dtype() == static_cast<std::uint32_t>(dtype);
}

// Which inputs the bytes at a place were computed from; one bit per input, beyond 64 all share the
// last. Follows bytes, not tensors, as aliases (Reshape and its kind) have no step.
class Influences {
 public:
  explicit Influences(const proto::Plan& plan) : plan_(plan) {
    for (int i = 0; i < plan.inputs_size(); ++i) bits_[place(plan.inputs(i).tensor())] = bit(i);
    for (const proto::Phase& phase : plan.phases()) {
      if (phase.kind() != proto::PHASE_EVALUATE) continue;
      for (const proto::Step& step : phase.steps()) follow(step);
    }
  }
  bool depends(int tensor, int input) const { return (of(tensor) & bit(input)) != 0; }

 private:
  static std::uint64_t bit(int input) { return std::uint64_t{1} << std::min(input, 63); }
  std::pair<std::uint32_t, std::uint64_t> place(int tensor) const {
    return {plan_.tensors(tensor).arena(), plan_.tensors(tensor).offset()};
  }
  std::uint64_t of(int tensor) const {
    const auto found = bits_.find(place(tensor));
    return found == bits_.end() ? 0 : found->second;
  }
  void follow(const proto::Step& step) {
    std::uint64_t bits = 0;
    for (const int input : step.inputs()) {
      if (input >= 0 && plan_.tensors(input).role() != proto::ROLE_CONSTANT) bits |= of(input);
    }
    for (const int output : step.outputs()) {
      if (output >= 0) bits_[place(output)] = bits;
    }
  }

  const proto::Plan& plan_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> bits_;
};

// The axis of `scores` that `labels` lacks: the last, or the second; 0 if the shapes do not fit.
int class_axis(const proto::Tensor& scores, const proto::Tensor& labels) {
  const int rank = scores.dims_size();
  if (rank < 2 || labels.dims_size() != rank - 1) return 0;
  for (const int axis : {rank - 1, 1}) {
    bool fits = scores.dims(axis) > 1;
    for (int d = 0; d < rank - 1; ++d)
      fits = fits && labels.dims(d) == scores.dims(d < axis ? d : d + 1);
    if (fits) return axis;
  }
  return 0;
}

std::int64_t label_at(const Executor& executor, int tensor, std::int64_t index) {
  if (has_dtype(executor.plan().tensors(tensor), DType::kInt64))
    return executor.data_as<std::int64_t>(tensor)[index];
  return executor.data_as<std::int32_t>(tensor)[index];
}

}  // namespace

std::optional<ClassPorts> find_class_ports(const proto::Plan& plan) {
  const Influences influences(plan);
  const int loss = plan.training().evaluate_loss();
  for (const proto::Port& output : plan.outputs()) {
    if (output.evaluate_tensor() < 0 || loss < 0) continue;
    const proto::Tensor& scores = plan.tensors(output.evaluate_tensor());
    if (!has_dtype(scores, DType::kFloat32)) continue;
    for (int i = 0; i < plan.inputs_size(); ++i) {
      const int labels = plan.inputs(i).tensor();
      const proto::Tensor& tensor = plan.tensors(labels);
      const int axis = class_axis(scores, tensor);
      if (axis == 0 || (!has_dtype(tensor, DType::kInt64) && !has_dtype(tensor, DType::kInt32)))
        continue;
      if (influences.depends(output.evaluate_tensor(), i) || !influences.depends(loss, i)) continue;
      return ClassPorts{output.evaluate_tensor(), labels, axis, output.logical_dims(axis)};
    }
  }
  return std::nullopt;
}

HitCount count_hits(const Executor& executor, const ClassPorts& ports, std::int64_t samples) {
  const auto& dims = executor.plan().tensors(ports.scores).dims();
  std::int64_t outer = samples, stride = 1;  // of the class axis
  for (int d = 1; d < ports.class_axis; ++d) outer *= dims.Get(d);
  for (int d = ports.class_axis + 1; d < dims.size(); ++d) stride *= dims.Get(d);
  const float* scores = executor.data_as<float>(ports.scores);
  HitCount count;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t s = 0; s < stride; ++s) {
      const std::int64_t label = label_at(executor, ports.labels, o * stride + s);
      if (label < 0 || label >= ports.classes) continue;
      const float* row = scores + o * dims.Get(ports.class_axis) * stride + s;
      std::int64_t best = 0;
      for (std::int64_t c = 1; c < ports.classes; ++c) {
        if (row[c * stride] > row[best * stride]) best = c;
      }
      ++count.places;
      count.hits += best == label ? 1 : 0;
    }
  }
  return count;
}

}  // namespace mezzo::runtime
