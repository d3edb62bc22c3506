#include "runtime/exec/plan_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/dtype.h"
#include "kernels/kernel.h"

namespace mezzo::runtime {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kMostBytes = std::uint64_t{1}
                                     << 44;  // 16 TiB: beyond any machine, far from overflow
constexpr int kMostRank = 16;
constexpr int kOutside = -1;  // written by the runtime, not by a step

// Size of a tensor, or nullopt if the dimensions or the dtype make no sense.
std::optional<std::uint64_t> checked_bytes(const proto::Tensor& tensor) {
  if (tensor.dtype() == 0 || tensor.dtype() >= static_cast<std::uint32_t>(kDTypeCount))
    return std::nullopt;
  const int bits = dtype_bits(static_cast<DType>(tensor.dtype()));
  if (bits == 0 || tensor.dims_size() > kMostRank) return std::nullopt;
  std::uint64_t elems = 1;
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0 || __builtin_mul_overflow(elems, static_cast<std::uint64_t>(dim), &elems) ||
        elems > kMostBytes) {
      return std::nullopt;
    }
  }
  return (elems * static_cast<std::uint64_t>(bits) + 7) / 8;
}

// Who wrote which bytes of an arena last.
class WriteMap {
 public:
  void write(std::uint64_t begin, std::uint64_t end, int writer) {
    if (begin == end) return;
    split(begin);
    split(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    pieces_[begin] = {end, writer};
  }
  // Has `writer` written any of the bytes in [begin, end)?
  bool holds(std::uint64_t begin, std::uint64_t end, int writer) const {
    auto piece = pieces_.upper_bound(begin);
    if (piece != pieces_.begin()) --piece;
    for (; piece != pieces_.end() && piece->first < end; ++piece) {
      if (piece->second.end > begin && piece->second.writer == writer) return true;
    }
    return false;
  }
  // The one writer of all bytes in [begin, end); nullopt if there are several, or gaps.
  std::optional<int> writer(std::uint64_t begin, std::uint64_t end) const {
    auto piece = pieces_.upper_bound(begin);
    if (piece == pieces_.begin()) return std::nullopt;
    --piece;
    if (piece->second.end < end) return std::nullopt;
    return piece->second.writer;
  }

 private:
  struct Piece {
    std::uint64_t end;
    int writer;
  };
  void split(std::uint64_t at) {
    auto piece = pieces_.lower_bound(at);
    if (piece == pieces_.begin()) return;
    --piece;
    if (piece->second.end <= at) return;
    pieces_[at] = piece->second;
    piece->second.end = at;
  }
  std::map<std::uint64_t, Piece> pieces_;
};

class PlanChecker {
 public:
  explicit PlanChecker(const proto::Plan& plan) : plan_(plan) {}

  Status run() {
    if (plan_.format_version() != kPlanFormatVersion) {
      return invalid_argument("plan format version: expected " +
                              std::to_string(kPlanFormatVersion) + ", got " +
                              std::to_string(plan_.format_version()) +
                              ". Hint: compile the model again with this version of mezzo");
    }
    MEZZO_RETURN_IF_ERROR(check_tensors());
    MEZZO_RETURN_IF_ERROR(check_references());
    MEZZO_RETURN_IF_ERROR(check_training());
    MEZZO_RETURN_IF_ERROR(check_runtime_writes());
    return check_phases();
  }

 private:
  Status fault(int tensor, const std::string& text) const {
    return invalid_argument("tensor " + std::to_string(tensor) + " '" +
                            plan_.tensors(tensor).name() + "': " + text);
  }

  bool exists(int tensor) const { return tensor >= 0 && tensor < plan_.tensors_size(); }
  bool exists_or_absent(int tensor) const { return tensor == -1 || exists(tensor); }
  bool placed(const proto::Tensor& tensor) const {
    return !(tensor.role() == proto::ROLE_CONSTANT && tensor.in_weights_file());
  }

  Status check_tensors() {
    for (const proto::Arena& arena : plan_.arenas()) {
      if (arena.bytes() > kMostBytes) {
        return invalid_argument("arena '" + arena.name() + "': " + std::to_string(arena.bytes()) +
                                " bytes are too many");
      }
    }
    bytes_.resize(static_cast<std::size_t>(plan_.tensors_size()));
    for (int i = 0; i < plan_.tensors_size(); ++i) {
      const proto::Tensor& tensor = plan_.tensors(i);
      const auto bytes = checked_bytes(tensor);
      if (!bytes) return fault(i, "shape or dtype makes no sense");
      bytes_[static_cast<std::size_t>(i)] = *bytes;
      if (tensor.layout() > 1 || (tensor.layout() == 1 && tensor.dims_size() < 3))
        return fault(i, "unknown layout");
      if (!proto::Role_IsValid(tensor.role())) return fault(i, "unknown role");
      if (!tensor.inline_data().empty()) MEZZO_RETURN_IF_ERROR(check_inline_data(i, *bytes));
      if (!placed(tensor)) continue;
      if (tensor.arena() >= static_cast<std::uint32_t>(plan_.arenas_size()))
        return fault(i, "names no arena");
      const std::uint64_t arena_bytes = plan_.arenas(static_cast<int>(tensor.arena())).bytes();
      if (tensor.offset() % kAlignment != 0) return fault(i, "offset is not a multiple of 64");
      if (tensor.offset() > arena_bytes || *bytes > arena_bytes - tensor.offset()) {
        return fault(i, "lies beyond the end of its arena");
      }
    }
    return ok_status();
  }

  Status check_inline_data(int i, std::uint64_t bytes) const {
    const proto::Tensor& tensor = plan_.tensors(i);
    if (tensor.inline_data().size() != bytes) {
      return fault(i, "inline data: expected " + std::to_string(bytes) + " bytes, got " +
                          std::to_string(tensor.inline_data().size()));
    }
    if (tensor.in_weights_file()) return fault(i, "is both inline and in the weights file");
    return ok_status();
  }

  Status check_references() const {
    for (const proto::Port& port : plan_.inputs()) {
      // The runtime writes there; a mapped constant could not be written.
      if (exists(port.tensor()) && plan_.tensors(port.tensor()).role() != proto::ROLE_INPUT) {
        return invalid_argument("input '" + port.name() + "': its tensor has another role");
      }
    }
    for (const auto* ports : {&plan_.inputs(), &plan_.outputs()}) {
      for (const proto::Port& port : *ports) {
        if (!exists(port.tensor()) || !exists_or_absent(port.evaluate_tensor())) {
          return invalid_argument("input or output '" + port.name() + "' names no tensor");
        }
        MEZZO_RETURN_IF_ERROR(check_logical(port.name(), port.tensor(), port.logical_dims()));
      }
    }
    for (const proto::Parameter& parameter : plan_.parameters()) {
      if (!exists(parameter.master()) || !exists_or_absent(parameter.low_copy()) ||
          !exists_or_absent(parameter.gradient())) {
        return invalid_argument("parameter '" + parameter.name() + "' names no tensor");
      }
      MEZZO_RETURN_IF_ERROR(check_parameter(parameter));
    }
    for (const proto::State& state : plan_.states()) {
      if (!exists(state.tensor()) || !exists(state.next())) {
        return invalid_argument("state '" + state.name() + "' names no tensor");
      }
      if (bytes_[state.tensor()] != bytes_[state.next()] ||
          plan_.tensors(state.tensor()).role() != proto::ROLE_STATE ||
          overlap(state.tensor(), state.next())) {
        return invalid_argument("state '" + state.name() + "' does not fit its tensors");
      }
      MEZZO_RETURN_IF_ERROR(check_logical(state.name(), state.tensor(), state.logical_dims()));
    }
    return ok_status();
  }

  template <typename Dims>
  Status check_logical(const std::string& name, int tensor, const Dims& logical) const {
    const proto::Tensor& physical = plan_.tensors(tensor);
    bool fits = logical.size() == physical.dims_size();
    for (int d = 0; fits && d < logical.size(); ++d) {
      fits = logical.Get(d) >= 0 && logical.Get(d) <= physical.dims(d);
    }
    return fits ? ok_status()
                : invalid_argument("'" + name + "': logical shape does not fit in the tensor's");
  }

  Status check_parameter(const proto::Parameter& parameter) const {
    const proto::Tensor& master = plan_.tensors(parameter.master());
    const auto is = [&](int tensor, proto::Role role) {
      return plan_.tensors(tensor).role() == role;
    };
    const auto same_dims = [&](int tensor) {
      const auto& dims = plan_.tensors(tensor).dims();
      return std::equal(dims.begin(), dims.end(), master.dims().begin(), master.dims().end());
    };
    bool fits = is(parameter.master(), proto::ROLE_MASTER) &&
                master.dtype() == static_cast<std::uint32_t>(DType::kFloat32);
    if (parameter.gradient() >= 0) {
      fits = fits && same_dims(parameter.gradient()) &&
             is(parameter.gradient(), proto::ROLE_GRADIENT) &&
             plan_.tensors(parameter.gradient()).dtype() ==
                 static_cast<std::uint32_t>(DType::kFloat32);
    }
    if (parameter.low_copy() >= 0) {
      fits = fits && same_dims(parameter.low_copy()) &&
             is(parameter.low_copy(), proto::ROLE_LOW_COPY) &&
             is_low(static_cast<DType>(plan_.tensors(parameter.low_copy()).dtype()));
    }
    if (!fits)
      return invalid_argument("parameter '" + parameter.name() + "' does not fit its tensors");
    return check_logical(parameter.name(), parameter.master(), parameter.logical_dims());
  }

  // What the runtime writes between phases: no two of these may share a byte.
  Status check_runtime_writes() const {
    std::vector<int> targets;
    for (const proto::Port& port : plan_.inputs()) targets.push_back(port.tensor());
    for (const proto::Parameter& parameter : plan_.parameters()) {
      targets.push_back(parameter.master());
      if (parameter.low_copy() >= 0) targets.push_back(parameter.low_copy());
    }
    for (const proto::State& state : plan_.states()) targets.push_back(state.tensor());
    if (plan_.has_training()) {
      targets.push_back(plan_.training().loss_gradient());
      if (plan_.training().random_counter() >= 0)
        targets.push_back(plan_.training().random_counter());
    }
    const auto place = [&](int tensor) {
      return std::pair(plan_.tensors(tensor).arena(), plan_.tensors(tensor).offset());
    };
    std::erase_if(targets,
                  [&](int tensor) { return bytes_[static_cast<std::size_t>(tensor)] == 0; });
    std::sort(targets.begin(), targets.end(), [&](int a, int b) { return place(a) < place(b); });
    for (std::size_t i = 1; i < targets.size(); ++i) {
      if (overlap(targets[i - 1], targets[i])) {
        return fault(targets[i], "shares bytes with '" + plan_.tensors(targets[i - 1]).name() +
                                     "', and the runtime writes both");
      }
    }
    return ok_status();
  }

  // Runs through the steps as they will be executed and follows every byte.
  Status check_phases() {
    std::vector<WriteMap> from_outside(static_cast<std::size_t>(plan_.arenas_size()));
    for (int i = 0; i < plan_.tensors_size(); ++i) {
      const proto::Tensor& tensor = plan_.tensors(i);
      const bool computed =
          tensor.role() == proto::ROLE_ACTIVATION || tensor.role() == proto::ROLE_GRADIENT;
      if (!computed && placed(tensor))
        from_outside[tensor.arena()].write(tensor.offset(), end_of(i), kOutside);
    }
    std::vector<bool> has_writer(bytes_.size(), false);
    for (const proto::Phase& phase : plan_.phases()) {
      for (const proto::Step& step : phase.steps()) {
        for (const int output : step.outputs()) {
          if (exists(output)) has_writer[static_cast<std::size_t>(output)] = true;
        }
      }
    }
    std::vector<WriteMap> written = from_outside;
    int last_kind = -1;
    for (const proto::Phase& phase : plan_.phases()) {
      if (!proto::PhaseKind_IsValid(phase.kind()) || phase.kind() <= last_kind) {
        return invalid_argument(
            "phases: expected forward, backward and evaluate, each at most once, in this order");
      }
      last_kind = phase.kind();
      // Evaluation may run first: nothing of a training step is there then.
      if (phase.kind() == proto::PHASE_EVALUATE) written = from_outside;
      for (const proto::Step& step : phase.steps()) {
        MEZZO_RETURN_IF_ERROR(check_step(step, has_writer, written));
      }
    }
    return ok_status();
  }

  std::uint64_t end_of(int tensor) const {
    return plan_.tensors(tensor).offset() + bytes_[static_cast<std::size_t>(tensor)];
  }

  Status check_step(const proto::Step& step, const std::vector<bool>& has_writer,
                    std::vector<WriteMap>& written) {
    const auto step_fault = [&](const std::string& text) {
      return invalid_argument("step '" + step.node() + "' (" + step.op() + "): " + text);
    };
    for (const int input : step.inputs()) {
      if (!exists_or_absent(input)) return step_fault("an operand names no tensor");
      if (input < 0 || !placed(plan_.tensors(input)) ||
          bytes_[static_cast<std::size_t>(input)] == 0)
        continue;
      const proto::Tensor& tensor = plan_.tensors(input);
      const auto writer = written[tensor.arena()].writer(tensor.offset(), end_of(input));
      if (!writer)
        return step_fault("reads '" + tensor.name() + "', which nothing has written as a whole");
      if (has_writer[static_cast<std::size_t>(input)] && *writer != input) {
        return step_fault("reads '" + tensor.name() + "' after another step has overwritten it");
      }
    }
    for (const int output : step.outputs()) {
      if (!exists_or_absent(output)) return step_fault("a result names no tensor");
      if (output < 0) continue;
      const proto::Tensor& tensor = plan_.tensors(output);
      if (tensor.role() != proto::ROLE_ACTIVATION && tensor.role() != proto::ROLE_GRADIENT) {
        return step_fault("writes '" + tensor.name() + "', which steps may only read");
      }
      if (bytes_[static_cast<std::size_t>(output)] > 0 &&
          written[tensor.arena()].holds(tensor.offset(), end_of(output), kOutside)) {
        return step_fault("result '" + tensor.name() + "' lies on bytes that steps may only read");
      }
    }
    MEZZO_RETURN_IF_ERROR(check_overlaps(step));
    for (const int output : step.outputs()) {
      if (output < 0) continue;
      const proto::Tensor& tensor = plan_.tensors(output);
      written[tensor.arena()].write(tensor.offset(), end_of(output), output);
    }
    return ok_status();
  }

  bool overlap(int a, int b) const {
    const proto::Tensor &x = plan_.tensors(a), &y = plan_.tensors(b);
    if (!placed(x) || !placed(y) || x.arena() != y.arena()) return false;
    return x.offset() < end_of(b) && y.offset() < end_of(a);
  }

  // A result may share bytes with an operand only as a whole, and where the kernel allows it; never
  // with another result. Splits may have thousands of results, so none is compared with all others.
  Status check_overlaps(const proto::Step& step) const {
    std::vector<int> results;  // positions of those with bytes, by place
    for (int o = 0; o < step.outputs_size(); ++o) {
      if (has_bytes(step.outputs(o))) results.push_back(o);
    }
    const auto begin_of = [&](int tensor) {
      return std::pair(plan_.tensors(tensor).arena(), plan_.tensors(tensor).offset());
    };
    std::sort(results.begin(), results.end(),
              [&](int a, int b) { return begin_of(step.outputs(a)) < begin_of(step.outputs(b)); });
    for (std::size_t i = 1; i < results.size(); ++i) {
      if (overlap(step.outputs(results[i - 1]), step.outputs(results[i]))) {
        return invalid_argument("step '" + step.node() + "' (" + step.op() +
                                "): two results overlap");
      }
    }
    for (int i = 0; i < step.inputs_size(); ++i) {
      if (!has_bytes(step.inputs(i))) continue;
      const auto found = std::partition_point(results.begin(), results.end(), [&](int o) {
        const int output = step.outputs(o);
        return std::pair(plan_.tensors(output).arena(), end_of(output)) <= begin_of(step.inputs(i));
      });
      if (found != results.end()) MEZZO_RETURN_IF_ERROR(check_in_place(step, i, *found));
    }
    return ok_status();
  }

  bool has_bytes(int tensor) const {
    return tensor >= 0 && placed(plan_.tensors(tensor)) &&
           bytes_[static_cast<std::size_t>(tensor)] > 0;
  }

  Status check_in_place(const proto::Step& step, int i, int o) const {
    const int input = step.inputs(i), output = step.outputs(o);
    if (!overlap(input, output)) return ok_status();
    const proto::Tensor &x = plan_.tensors(input), &y = plan_.tensors(output);
    const bool whole =
        x.offset() == y.offset() && x.layout() == y.layout() &&
        bytes_[static_cast<std::size_t>(input)] == bytes_[static_cast<std::size_t>(output)] &&
        std::equal(x.dims().begin(), x.dims().end(), y.dims().begin(), y.dims().end());
    if (whole && kernels::may_run_in_place(step.op(), i, o)) return ok_status();
    return invalid_argument("step '" + step.node() + "' (" + step.op() + "): result " +
                            std::to_string(o) + " overlaps operand " + std::to_string(i));
  }

  Status check_training() const {
    if (!plan_.has_training()) return ok_status();
    const proto::Training& training = plan_.training();
    const auto is_scalar = [&](int tensor, DType dtype) {
      return exists(tensor) && plan_.tensors(tensor).dtype() == static_cast<std::uint32_t>(dtype) &&
             bytes_[static_cast<std::size_t>(tensor)] == dtype_bytes(dtype, 1) &&
             placed(plan_.tensors(tensor));
    };
    if (!is_scalar(training.loss(), DType::kFloat32))
      return invalid_argument("the loss is not a float scalar");
    if (!is_scalar(training.loss_gradient(), DType::kFloat32) ||
        plan_.tensors(training.loss_gradient()).role() != proto::ROLE_INPUT) {
      return invalid_argument("the loss gradient is not a float scalar input");
    }
    if (training.random_counter() != -1 &&
        (!is_scalar(training.random_counter(), DType::kInt64) ||
         plan_.tensors(training.random_counter()).role() != proto::ROLE_INPUT)) {
      return invalid_argument("the random counter is not an int64 scalar input");
    }
    if (training.evaluate_loss() != -1 && !is_scalar(training.evaluate_loss(), DType::kFloat32)) {
      return invalid_argument("the evaluation loss is not a float scalar");
    }
    return ok_status();
  }

  const proto::Plan& plan_;
  std::vector<std::uint64_t> bytes_;
};

}  // namespace

Status check_plan(const proto::Plan& plan) { return PlanChecker(plan).run(); }

std::uint64_t tensor_bytes(const proto::Tensor& tensor) {
  return checked_bytes(tensor).value_or(0);
}

}  // namespace mezzo::runtime
