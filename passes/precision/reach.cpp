#include "passes/precision/reach.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "compiler/ir/cast_elems.h"
#include "compiler/ir/float_loops.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "passes/precision/reach_rules.h"

namespace mezzo::passes {
namespace {

constexpr std::int64_t kMostNarrowElems = 65536;  // constants that are not FP32 are read whole

ConstantFacts facts_of_floats(const Tensor& tensor) {
  FloatExtremesFinder finder;
  const Status status = tensor.stream([&](std::span<const std::byte> piece) {
    finder.add(piece.data(), piece.size() / sizeof(float));
    return ok_status();
  });
  const FloatExtremes found = finder.result();
  ConstantFacts facts;
  facts.elems = tensor.elems();
  facts.known = status.ok() && !found.nan;
  facts.infinite = found.infinite;
  if (!facts.known || !found.any_finite) return facts;
  facts.lowest = found.lowest;
  facts.highest = found.highest;
  facts.smallest_nonzero = found.smallest_nonzero;
  facts.uniform = !facts.infinite && facts.lowest == facts.highest;
  return facts;
}

ConstantFacts facts_of_others(const Tensor& tensor) {
  ConstantFacts facts;
  facts.elems = tensor.elems();
  if (facts.elems > kMostNarrowElems) return facts;
  const std::vector<double> values = tensor.to_doubles();
  if (static_cast<std::int64_t>(values.size()) != facts.elems) return facts;
  facts.known = std::none_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
  bool first = true;
  for (const double value : values) {
    if (std::isinf(value)) facts.infinite = true;
    if (!std::isfinite(value)) continue;
    facts.lowest = first ? value : std::min(facts.lowest, value);
    facts.highest = first ? value : std::max(facts.highest, value);
    first = false;
    const double magnitude = std::fabs(value);
    if (magnitude != 0 && (facts.smallest_nonzero == 0 || magnitude < facts.smallest_nonzero))
      facts.smallest_nonzero = magnitude;
  }
  facts.uniform = !first && !facts.infinite && facts.lowest == facts.highest;
  return facts;
}

// The range of an integer type; none for those that hold more than any floating type tells apart.
struct IntegerBounds {
  double lowest, highest;
};
std::optional<IntegerBounds> integer_bounds(DType dtype) {
  switch (dtype) {
    case DType::kBool: return IntegerBounds{0, 1};
    case DType::kUInt2: return IntegerBounds{0, 3};
    case DType::kInt2: return IntegerBounds{-2, 1};
    case DType::kUInt4: return IntegerBounds{0, 15};
    case DType::kInt4: return IntegerBounds{-8, 7};
    case DType::kUInt8: return IntegerBounds{0, 255};
    case DType::kInt8: return IntegerBounds{-128, 127};
    case DType::kUInt16: return IntegerBounds{0, 65535};
    case DType::kInt16: return IntegerBounds{-32768, 32767};
    default: return std::nullopt;
  }
}

bool is_integer(DType dtype) {
  switch (dtype) {
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt32:
    case DType::kUInt64: return true;
    default: return dtype != DType::kBool && integer_bounds(dtype).has_value();
  }
}

// Where the arithmetic on bounds left the doubles, or that of an integer type wraps around, there
// are none.
void keep_sound(Reach& reach, DType dtype) {
  if (!(reach.lowest < Reach::kUnknown)) reach.lowest = -Reach::kUnknown;
  if (!(reach.highest > -Reach::kUnknown)) reach.highest = Reach::kUnknown;
  const auto type = integer_bounds(dtype);
  if (!type || (reach.lowest >= type->lowest && reach.highest <= type->highest)) return;
  reach.lowest = type->lowest;
  reach.highest = type->highest;
}

Reach reach_of_constant(const Value& value, const ConstantFacts& facts, bool inexact_integers,
                        bool masks) {
  Reach reach;
  reach.pure = true;
  reach.lowest = facts.infinite ? -Reach::kUnknown : facts.lowest;
  reach.highest = facts.infinite ? Reach::kUnknown : facts.highest;
  reach.scale = masks ? std::fabs(facts.highest) : facts.largest();
  reach.never = masks ? -facts.lowest : 0;
  if (masks && facts.uniform) reach.scale = 0;
  reach.counts = inexact_integers;
  reach.cause = &value;
  return reach;
}

}  // namespace

double Reach::bound() const { return std::max(std::fabs(lowest), std::fabs(highest)); }

double ConstantFacts::largest() const { return std::max(std::fabs(lowest), std::fabs(highest)); }

ConstantFacts facts_of(const Tensor& tensor) {
  return tensor.dtype() == DType::kFloat32 ? facts_of_floats(tensor) : facts_of_others(tensor);
}

bool holds_inexact_integers(const Tensor& tensor, const ConstantFacts& facts, DType low) {
  const double exact_up_to = 2.0 / float_facts(low).epsilon;
  if (!facts.known || facts.elems < 2 || facts.uniform || facts.largest() <= exact_up_to ||
      facts.elems > kMostNarrowElems)
    return false;
  bool inexact = false;
  for (const double value : tensor.to_doubles()) {
    if (!std::isfinite(value) || value != std::floor(value)) return false;
    inexact = inexact || round_to(low, value) != value;
  }
  return inexact;
}

ReachAnalysis::ReachAnalysis(const Model& model, DType low, double mask) : low_(low), mask_(mask) {
  for_each_graph(*model.graph, [&](const Graph& graph) { visit(graph); });
}

const ConstantFacts& ReachAnalysis::constant(const Value& value) const {
  const auto found = constants_.find(&value);
  if (found != constants_.end()) return found->second;
  const TensorRef data = constant_of(&value);
  return constants_.emplace(&value, data ? facts_of(*data) : ConstantFacts()).first->second;
}

const Reach& ReachAnalysis::of(const Value& value) const {
  const auto found = reach_.find(&value);
  if (found != reach_.end()) return found->second;
  return reach_.emplace(&value, start(value)).first->second;
}

Reach ReachAnalysis::start(const Value& value) const {
  const DType dtype = value.dtype();
  if (const TensorRef data = constant_of(&value)) {
    const ConstantFacts& facts = constant(value);
    const bool masks =
        is_floating(dtype) && facts.lowest <= mask_ && facts.highest <= float_facts(low_).max;
    const bool counts = is_integer(dtype) || (!masks && holds_inexact_integers(*data, facts, low_));
    if (facts.known) return reach_of_constant(value, facts, counts, masks);
  }
  Reach reach;
  if (const auto bounds = integer_bounds(dtype)) {
    reach.lowest = bounds->lowest;
    reach.highest = bounds->highest;
    reach.scale = reach.bound();
    reach.pure = true;
  }
  reach.counts = is_integer(dtype);
  if (reach.counts) reach.cause = &value;
  return reach;
}

void ReachAnalysis::visit(const Graph& graph) {
  const double max = float_facts(low_).max;
  for (const auto& node : graph.nodes()) {
    for (std::size_t i = 0; i < node->results().size(); ++i) {
      const Value* result = node->result(i);
      if (result == nullptr || node->is("Constant")) continue;
      std::optional<Reach> reach = reach_of_result(*node, i, *this);
      if (!reach) continue;  // of() starts anew when asked
      keep_sound(*reach, result->dtype());
      if (reach->bound() <= max) reach->growth = Growth::kOrdinary;
      reach->scale = std::min(reach->scale, reach->bound());
      if (is_integer(result->dtype())) {
        reach->counts = true;
        if (reach->cause == nullptr) reach->cause = result;
      }
      reach_[result] = *reach;
    }
  }
}

}  // namespace mezzo::passes
