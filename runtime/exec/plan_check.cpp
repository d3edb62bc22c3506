#include "runtime/exec/plan_check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/dtype.h"
#include "runtime/exec/plan_flow.h"
#include "runtime/exec/plan_places.h"

namespace mezzo::runtime {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kMostBytes = std::uint64_t{1}
                                     << 44;  // 16 TiB: beyond any machine, far from overflow
constexpr int kMostRank = 16;

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

class PlanChecker {
 public:
  explicit PlanChecker(const proto::Plan& plan) : plan_(plan), places_(plan) {}

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
    return check_flow(plan_, places_);
  }

 private:
  Status fault(int tensor, const std::string& text) const {
    return invalid_argument("tensor " + std::to_string(tensor) + " '" +
                            plan_.tensors(tensor).name() + "': " + text);
  }

  Status check_tensors() {
    for (const proto::Arena& arena : plan_.arenas()) {
      if (arena.bytes() > kMostBytes) {
        return invalid_argument("arena '" + arena.name() + "': " + std::to_string(arena.bytes()) +
                                " bytes are too many");
      }
    }
    for (int i = 0; i < plan_.tensors_size(); ++i) {
      const proto::Tensor& tensor = plan_.tensors(i);
      const auto bytes = checked_bytes(tensor);
      if (!bytes) return fault(i, "shape or dtype makes no sense");
      if (tensor.layout() > 1 || (tensor.layout() == 1 && tensor.dims_size() < 3))
        return fault(i, "unknown layout");
      if (!proto::Role_IsValid(tensor.role())) return fault(i, "unknown role");
      if (!tensor.inline_data().empty()) MEZZO_RETURN_IF_ERROR(check_inline_data(i, *bytes));
      if (!places_.placed(i)) continue;
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
      if (places_.exists(port.tensor()) &&
          plan_.tensors(port.tensor()).role() != proto::ROLE_INPUT) {
        return invalid_argument("input '" + port.name() + "': its tensor has another role");
      }
    }
    for (const auto* ports : {&plan_.inputs(), &plan_.outputs()}) {
      for (const proto::Port& port : *ports) {
        if (!places_.exists(port.tensor()) || !places_.exists_or_absent(port.evaluate_tensor())) {
          return invalid_argument("input or output '" + port.name() + "' names no tensor");
        }
        MEZZO_RETURN_IF_ERROR(check_logical(port.name(), port.tensor(), port.logical_dims()));
      }
    }
    for (const proto::Parameter& parameter : plan_.parameters()) {
      if (!places_.exists(parameter.master()) || !places_.exists_or_absent(parameter.low_copy()) ||
          !places_.exists_or_absent(parameter.gradient())) {
        return invalid_argument("parameter '" + parameter.name() + "' names no tensor");
      }
      MEZZO_RETURN_IF_ERROR(check_parameter(parameter));
    }
    for (const proto::State& state : plan_.states()) {
      if (!places_.exists(state.tensor()) || !places_.exists(state.next())) {
        return invalid_argument("state '" + state.name() + "' names no tensor");
      }
      if (places_.bytes(state.tensor()) != places_.bytes(state.next()) ||
          plan_.tensors(state.tensor()).role() != proto::ROLE_STATE ||
          places_.overlap(state.tensor(), state.next())) {
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
    std::erase_if(targets, [&](int tensor) { return places_.bytes(tensor) == 0; });
    std::sort(targets.begin(), targets.end(),
              [&](int a, int b) { return places_.begin_of(a) < places_.begin_of(b); });
    for (std::size_t i = 1; i < targets.size(); ++i) {
      if (places_.overlap(targets[i - 1], targets[i])) {
        return fault(targets[i], "shares bytes with '" + plan_.tensors(targets[i - 1]).name() +
                                     "', and the runtime writes both");
      }
    }
    return ok_status();
  }

  Status check_training() const {
    if (!plan_.has_training()) return ok_status();
    const proto::Training& training = plan_.training();
    const auto is_scalar = [&](int tensor, DType dtype) {
      return places_.exists(tensor) &&
             plan_.tensors(tensor).dtype() == static_cast<std::uint32_t>(dtype) &&
             places_.bytes(tensor) == dtype_bytes(dtype, 1) && places_.placed(tensor);
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
  PlanPlaces places_;
};

}  // namespace

Status check_plan(const proto::Plan& plan) { return PlanChecker(plan).run(); }

std::uint64_t tensor_bytes(const proto::Tensor& tensor) {
  return checked_bytes(tensor).value_or(0);
}

}  // namespace mezzo::runtime
