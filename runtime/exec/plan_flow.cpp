#include "runtime/exec/plan_flow.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace mezzo::runtime {
namespace {

constexpr int kOutside = -1;  // written by the runtime, not by a step

bool is_computed(const proto::Tensor& tensor) {
  return tensor.role() == proto::ROLE_ACTIVATION || tensor.role() == proto::ROLE_GRADIENT;
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

class FlowChecker {
 public:
  FlowChecker(const proto::Plan& plan, const PlanPlaces& places) : plan_(plan), places_(places) {}

  Status run() {
    std::vector<WriteMap> from_outside(static_cast<std::size_t>(plan_.arenas_size()));
    for (int i = 0; i < plan_.tensors_size(); ++i) {
      const proto::Tensor& tensor = places_[i];
      if (!is_computed(tensor) && places_.placed(i))
        from_outside[tensor.arena()].write(tensor.offset(), places_.end_of(i), kOutside);
    }
    std::vector<bool> has_writer(static_cast<std::size_t>(plan_.tensors_size()), false);
    for (const proto::Phase& phase : plan_.phases()) {
      for (const proto::Step& step : phase.steps()) {
        for (const int output : step.outputs()) {
          if (places_.exists(output)) has_writer[static_cast<std::size_t>(output)] = true;
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

 private:
  Status check_step(const proto::Step& step, const std::vector<bool>& has_writer,
                    std::vector<WriteMap>& written) {
    const auto step_fault = [&](const std::string& text) {
      return invalid_argument("step '" + step.node() + "' (" + step.op() + "): " + text);
    };
    for (const int input : step.inputs()) {
      if (!places_.exists_or_absent(input)) return step_fault("an operand names no tensor");
      if (!places_.has_bytes(input)) continue;
      const proto::Tensor& tensor = places_[input];
      const auto writer = written[tensor.arena()].writer(tensor.offset(), places_.end_of(input));
      if (!writer)
        return step_fault("reads '" + tensor.name() + "', which nothing has written as a whole");
      if (has_writer[static_cast<std::size_t>(input)] && *writer != input) {
        return step_fault("reads '" + tensor.name() + "' after another step has overwritten it");
      }
    }
    for (const int output : step.outputs()) {
      if (!places_.exists_or_absent(output)) return step_fault("a result names no tensor");
      if (output < 0) continue;
      const proto::Tensor& tensor = places_[output];
      if (!is_computed(tensor)) {
        return step_fault("writes '" + tensor.name() + "', which steps may only read");
      }
      if (places_.bytes(output) > 0 &&
          written[tensor.arena()].holds(tensor.offset(), places_.end_of(output), kOutside)) {
        return step_fault("result '" + tensor.name() + "' lies on bytes that steps may only read");
      }
    }
    MEZZO_RETURN_IF_ERROR(check_overlaps(step));
    for (const int output : step.outputs()) {
      if (output < 0) continue;
      const proto::Tensor& tensor = places_[output];
      written[tensor.arena()].write(tensor.offset(), places_.end_of(output), output);
    }
    return ok_status();
  }

  // A result may share bytes with an operand only as a whole, and where the kernel allows it; never
  // with another result. Splits may have thousands of results, so none is compared with all others.
  Status check_overlaps(const proto::Step& step) const {
    std::vector<int> results;  // positions of those with bytes, by place
    for (int o = 0; o < step.outputs_size(); ++o) {
      if (places_.has_bytes(step.outputs(o))) results.push_back(o);
    }
    std::sort(results.begin(), results.end(), [&](int a, int b) {
      return places_.begin_of(step.outputs(a)) < places_.begin_of(step.outputs(b));
    });
    for (std::size_t i = 1; i < results.size(); ++i) {
      if (places_.overlap(step.outputs(results[i - 1]), step.outputs(results[i]))) {
        return invalid_argument("step '" + step.node() + "' (" + step.op() +
                                "): two results overlap");
      }
    }
    for (int i = 0; i < step.inputs_size(); ++i) {
      if (!places_.has_bytes(step.inputs(i))) continue;
      const auto found = std::partition_point(results.begin(), results.end(), [&](int o) {
        const int output = step.outputs(o);
        return std::pair(places_[output].arena(), places_.end_of(output)) <=
               places_.begin_of(step.inputs(i));
      });
      if (found != results.end()) MEZZO_RETURN_IF_ERROR(check_in_place(step, i, *found));
    }
    return ok_status();
  }

  Status check_in_place(const proto::Step& step, int i, int o) const {
    const int input = step.inputs(i), output = step.outputs(o);
    if (!places_.overlap(input, output)) return ok_status();
    const proto::Tensor &x = places_[input], &y = places_[output];
    const bool whole =
        x.offset() == y.offset() && x.layout() == y.layout() &&
        places_.bytes(input) == places_.bytes(output) &&
        std::equal(x.dims().begin(), x.dims().end(), y.dims().begin(), y.dims().end());
    if (whole && kernels::may_run_in_place(step.op(), i, o)) return ok_status();
    return invalid_argument("step '" + step.node() + "' (" + step.op() + "): result " +
                            std::to_string(o) + " overlaps operand " + std::to_string(i));
  }

  const proto::Plan& plan_;
  const PlanPlaces& places_;
};

}  // namespace

Status check_flow(const proto::Plan& plan, const PlanPlaces& places) {
  return FlowChecker(plan, places).run();
}

}  // namespace mezzo::runtime
