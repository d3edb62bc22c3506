#include "passes/precision/range.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "compiler/support/text.h"
#include "passes/cleanup/match.h"
#include "passes/cleanup/recognise.h"
#include "passes/precision/reach_rules.h"
#include "passes/precision/vanishing.h"

namespace mezzo::passes {
namespace {

constexpr int kDepth = 8, kBudget = 64;  // of the search along uses

bool chooses(const Node& node) { return is_one_of(node, {"Where", "Max", "Clip", "Pad"}); }
bool passes_on(const Node& node) {
  return is_one_of(node, {"Expand", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Slice",
                          "Transpose", "Concat"});
}

// How a mask constant is used. Searches give the answer "no" where they run out of their budget.
class MaskUses {
 public:
  MaskUses(const ReachAnalysis& reach, double max) : reach_(reach), max_(max) {}

  // Chosen by Where, the floor of a Max or Clip, what a Pad fills in, or moved to such a place, and
  // not told apart from others by its size later: the value only has to be far below all others.
  bool only_chosen(const Value& value, int depth = kDepth) {
    return depth > 0 && !value.is_graph_output() && value.inner_outputs().empty() &&
           std::all_of(value.uses().begin(), value.uses().end(), [&](const Use& use) {
             const Node& node = *use.node;
             if (--budget_ < 0) return false;
             if (node.result() == nullptr) return true;
             if (chooses(node)) return never_compared(*node.result(), depth - 1);
             return passes_on(node) && only_chosen(*node.result(), depth - 1);
           });
  }

 private:
  // Nothing compares the value with a constant that the low type has not.
  bool never_compared(const Value& value, int depth) {
    return std::all_of(value.uses().begin(), value.uses().end(), [&](const Use& use) {
      const Node& node = *use.node;
      if (--budget_ < 0) return false;
      if (is_one_of(node, {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"})) {
        const Value* other = node.operand(1 - use.operand);
        return other == nullptr || reach_.constant(*other).largest() <= max_;
      }
      if ((!chooses(node) && !passes_on(node)) || node.result() == nullptr) return true;
      return depth > 0 && never_compared(*node.result(), depth - 1);
    });
  }

  const ReachAnalysis& reach_;
  double max_;
  int budget_ = kBudget;
};

std::string number(double value) { return format_number(static_cast<float>(value)); }

bool comes_from_outside(const Value* value) {
  for (int depth = 8; value != nullptr && depth > 0; --depth) {
    if (value->producer() == nullptr) return value->is_graph_input();
    if (!is_one_of(*value->producer(),
                   {"Unsqueeze", "Squeeze", "Reshape", "Expand", "Slice", "Identity", "Transpose"}))
      return false;
    value = value->producer()->operand(0);
  }
  return false;
}

// A mask that the caller makes may hold what the low type has not, so it is added in FP32; Softmax
// reads FP32 anyway.
const Value* mask_from_outside(const Node& node) {
  if (!node.is("Add") || node.result() == nullptr || node.result()->uses().empty()) return nullptr;
  for (const Use& use : node.result()->uses()) {
    if (!is_one_of(*use.node, {"Softmax", "LogSoftmax"})) return nullptr;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (comes_from_outside(node.operand(i)) && !comes_from_outside(node.operand(1 - i)))
      return node.operand(i);
  }
  return nullptr;
}

// Sums with a mask of -1e4 or so: where a whole row is masked, what it was added to still counts.
const Value* mask_added(const Node& node, const ReachAnalysis& reach, double mask) {
  if (!is_one_of(node, {"Add", "Sub"}) || node.operand(0) == nullptr || node.operand(1) == nullptr)
    return nullptr;
  for (std::size_t i = 0; i < 2; ++i) {
    const Reach &known = reach.of(*node.operand(i)), &other = reach.of(*node.operand(1 - i));
    const bool masks = node.is("Sub") && i == 1 ? known.highest >= -mask && known.lowest >= 0
                                                : known.lowest <= mask && known.highest <= 0;
    if (known.pure && !other.pure && !known.counts && masks) return node.operand(i);
  }
  return nullptr;
}

bool averages(const Node& node) {
  return is_one_of(node, {"ReduceMean", "AveragePool", "GlobalAveragePool"});
}

}  // namespace

RangeCheck::RangeCheck(const Model& model, DType low, RangeLimits limits)
    : low_(low),
      facts_(float_facts(low)),
      limits_(limits),
      reach_(model, low, limits.mask),
      moments_(model, reach_) {
  for_each_graph(*model.graph, [&](const Graph& graph) {
    for (const PatternMatch& match : find_patterns(graph)) {
      if (match.name == "Gelu") bounded_patterns_.insert(match.nodes.begin(), match.nodes.end());
    }
  });
}

const ConstantRange& RangeCheck::check(const Value& value) {
  const auto found = seen_.find(&value);
  if (found != seen_.end()) return found->second;
  return seen_.emplace(&value, measure(value)).first->second;
}

std::string RangeCheck::describe_limit() const {
  return std::string(dtype_name(low_)) + "'s " + number(facts_.max);
}

double RangeCheck::least() const {
  return limits_.smallest > 0 ? limits_.smallest : facts_.min_normal;
}

std::string RangeCheck::describe_least() const {
  if (limits_.smallest > 0) return "the policy's " + number(limits_.smallest);
  return std::string(dtype_name(low_)) + "'s smallest normal value";
}

ConstantRange RangeCheck::measure(const Value& value) const {
  ConstantRange range;
  const TensorRef data = constant_data(value);
  if (!data || data->dtype() != DType::kFloat32) return range;
  const ConstantFacts& found = reach_.constant(value);
  if (!found.known) return range;
  if (found.largest() > facts_.max) {
    range.saturates = found.highest <= facts_.max && found.lowest <= limits_.mask &&
                      MaskUses(reach_, facts_.max).only_chosen(value);
    range.fits = range.saturates;
    range.why = "holds " + number(found.largest()) + " in magnitude, beyond " + describe_limit();
  } else if (found.smallest_nonzero != 0 && found.largest() < least()) {
    range.fits = false;
    range.why = (found.elems == 1 ? "is " : "holds at most ") + number(found.largest()) +
                ", below " + describe_least();
  } else if (found.lowest > limits_.mask && holds_inexact_integers(*data, found, low_)) {
    range.fits = false;
    range.why = "holds integers up to " + number(found.largest()) + ", which " +
                std::string(dtype_name(low_)) + " cannot all tell apart";
  }
  return range;
}

std::string RangeCheck::why_fp32(const Node& node, const LowSlots& slots,
                                 PrecisionCategory category) {
  if (std::string cause = constant_cause(node, slots); !cause.empty()) return cause;
  if (is_one_of(node, {"TopK", "ArgMax", "ArgMin"})) return "orders numbers: rounding makes ties";
  if (slots.operands.size() > 1 && slots.operands[1] && reads_coordinates(node, 1))
    return "reads coordinates, which would share the low type";
  if (std::string cause = sum_cause(node); !cause.empty()) return cause;
  if (const Value* mask = mask_from_outside(node))
    return "adds the mask '" + mask->name() + "' to the scores of a Softmax";
  if (const Value* mask = mask_added(node, reach_, limits_.mask))
    return "adds the mask '" + mask->name() + "', beside which the sum keeps few digits";
  const bool weighs = category == PrecisionCategory::kAllow && summed_elems(node) != 1.0;
  if (std::string cause = value_cause(node, slots, weighs); !cause.empty()) return cause;
  if (std::string cause = moments_.cause(node); !cause.empty()) return cause;
  return magnified_cause(node, category, reach_);
}

std::string RangeCheck::constant_cause(const Node& node, const LowSlots& slots) {
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    const Value* operand = node.operand(i);
    if (operand == nullptr || i >= slots.operands.size() || !slots.operands[i]) continue;
    const ConstantRange& range = check(*operand);
    if (!range.fits) return "constant '" + operand->name() + "' " + range.why;
    const double smallest = reach_.constant(*operand).smallest_nonzero;
    if (smallest != 0 && smallest < least() && every_element_matters(node, i))
      return "constant '" + operand->name() + "' holds " + number(smallest) + ", below " +
             describe_least();
  }
  const Value* weights = slots.operands.size() > 1 && slots.operands[1] ? node.operand(1) : nullptr;
  if (weights == nullptr || reach_.constant(*weights).smallest_nonzero >= least_precise(low_))
    return {};
  const auto vanishing = vanishing_channel(node, low_);
  return vanishing ? "a channel of '" + weights->name() + "' holds at most " + number(*vanishing) +
                         ", which " + std::string(dtype_name(low_)) + " hardly tells from zero"
                   : "";
}

std::string RangeCheck::sum_cause(const Node& node) const {
  const bool mean = averages(node);
  const Value* factor = node.is("MatMul") || node.is("Gemm") || node.is("Conv")
                            ? uniform_factor(node, reach_)
                            : nullptr;
  if (!mean && (factor == nullptr || reach_.constant(*factor).largest() == 0)) return {};
  const double elems = summed_elems(node).value_or(kAssumedSum);
  const double weight = factor == nullptr ? 1 : reach_.constant(*factor).largest();
  const std::string length =
      summed_elems(node) ? "over " + number(elems) + " elements" : "over an unknown length";
  if (elems * weight * limits_.activation > facts_.max)
    return "sums " + length + ", more than " + std::string(dtype_name(low_)) + " has room for";
  // Adding ones, the sum stands still at 2 / epsilon.
  if (elems > 2.0 / facts_.epsilon)
    return "sums " + length + ", more than " + std::string(dtype_name(low_)) + " has digits for";
  return {};
}

// Why the low type cannot hold the value; "" if it can.
std::string RangeCheck::why_not(const Value& value, bool contraction, bool may_grow) const {
  const Reach& reach = reach_.of(value);
  const std::string name = "'" + value.name() + "'";
  const std::string origin =
      reach.cause == nullptr || reach.cause == &value ? "" : ", from '" + reach.cause->name() + "'";
  const double exact_up_to = 2.0 / facts_.epsilon;
  // A sum over many features with weights is no place where neighbours must stay apart.
  if (reach.counts && reach.bound() > exact_up_to && !contraction)
    return name + " holds positions or counts" + origin + ": " + std::string(dtype_name(low_)) +
           " tells integers apart up to " + number(exact_up_to);
  if (reach.bound() <= facts_.max && (reach.bound() >= facts_.min_normal || reach.bound() == 0))
    return {};
  const double room = reach.pure || contraction ? 1 : limits_.activation;
  if (reach.scale * room > facts_.max)
    return name + " can reach " + number(reach.scale) +
           (room == 1 ? origin + ", beyond " + describe_limit()
                      : " times an activation" + origin + ", more than " +
                            std::string(dtype_name(low_)) + " has room for");
  if (reach.scale > 0 && reach.scale * limits_.activation < facts_.min_normal)
    return name + " is of the order of " + number(reach.scale) + origin + ", which vanishes in " +
           std::string(dtype_name(low_));
  // A range as wide as FP32's holds what FP32 holds.
  const bool narrow = facts_.max < 1e30;
  if (narrow && reach.growth == Growth::kExponential) return name + " grows as an exponential";
  if (narrow && reach.growth == Growth::kSquare && !contraction && !may_grow)
    return name + " grows as a square";
  return {};
}

std::string RangeCheck::value_cause(const Node& node, const LowSlots& slots,
                                    bool contraction) const {
  const bool may_grow = bounded_patterns_.count(&node) > 0;
  const auto check_one = [&](const Value* value, const std::vector<bool>& flags, std::size_t i,
                             bool weighs) {
    return value == nullptr || i >= flags.size() || !flags[i] ? std::string()
                                                              : why_not(*value, weighs, may_grow);
  };
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    const Value* operand = node.operand(i);
    if (operand != nullptr && reach_.constant(*operand).known) continue;  // see constant_cause
    if (operand != nullptr && i < slots.operands.size() && slots.operands[i] &&
        reach_.of(*operand).never > 0 && is_one_of(node, {"Add", "Sub", "Mul", "Div", "Sum"}))
      return "operand '" + operand->name() + "' may hold the mask '" +
             reach_.of(*operand).cause->name() + "', which is computed with here";
    if (std::string cause =
            check_one(operand, slots.operands, i, contraction && !multiplies_sum(node, i));
        !cause.empty())
      return "operand " + cause;
  }
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    if (std::string cause = check_one(node.result(i), slots.results, i, contraction);
        !cause.empty())
      return "result " + cause;
  }
  return {};
}

}  // namespace mezzo::passes
