#include "passes/precision/calibration.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "compiler/ops/constants.h"
#include "compiler/support/text.h"
#include "passes/cleanup/match.h"
#include "passes/precision/borders.h"
#include "passes/precision/vanishing.h"

namespace mezzo::passes {
namespace {

std::string number(double value) { return format_number(static_cast<float>(value)); }

bool contracts(const Node& node) {
  return is_one_of(node, {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "MatMulInteger"});
}

// As ONNX Runtime's training artifacts and mezzo's own backward graphs spell them.
bool is_gradient(const Value& value) {
  if (value.producer() != nullptr && value.producer()->op_type().ends_with("Grad")) return true;
  return value.name().find("_grad") != std::string::npos ||
         value.name().find("/gradient") != std::string::npos;
}

bool takes(const std::vector<bool>& flags, std::size_t index) {
  return index < flags.size() && flags[index];
}

}  // namespace

double TensorRange::largest() const { return std::max(std::fabs(lowest), std::fabs(highest)); }

void TensorRange::merge(const TensorRange& other) {
  elems += other.elems;
  infinities += other.infinities;
  nans += other.nans;
  whole = whole && other.whole;
  inexact = inexact || other.inexact;
  if (!other.any_finite) return;
  if (!any_finite) {
    any_finite = true;
    lowest = other.lowest;
    highest = other.highest;
    lowest_unmasked = other.lowest_unmasked;
  }
  lowest = std::min(lowest, other.lowest);
  highest = std::max(highest, other.highest);
  lowest_unmasked = std::min(lowest_unmasked, other.lowest_unmasked);
  if (smallest_nonzero == 0 ||
      (other.smallest_nonzero != 0 && other.smallest_nonzero < smallest_nonzero))
    smallest_nonzero = other.smallest_nonzero;
}

std::string measured_key(const Value& value) { return scope_of(*value.graph()) + value.name(); }

const TensorRange* Calibration::find(const Value& value) const {
  const auto found = tensors.find(measured_key(value));
  return found == tensors.end() ? nullptr : &found->second;
}

CalibrationCheck::CalibrationCheck(const Calibration& measured, DType low,
                                   const PrecisionPolicy& policy)
    : measured_(measured), low_(low), facts_(float_facts(low)), thresholds_(policy.calibration) {}

std::string CalibrationCheck::too_large(const Value& value, const TensorRange& range,
                                        const Reach& reach) const {
  // A mask that was chosen becomes the lowest finite value, see RangeCheck.
  const double lowest = reach.never > 0 ? range.lowest_unmasked : range.lowest;
  const double largest = std::max(std::fabs(lowest), std::fabs(range.highest));
  if (!range.any_finite || largest * thresholds_.headroom <= facts_.max) return {};
  const std::string limit = std::string(dtype_name(low_)) + "'s " + number(facts_.max);
  return "'" + value.name() + "' reaches " + number(largest) + " on the samples, " +
         (largest > facts_.max
              ? "beyond " + limit
              : "within a factor of " + number(thresholds_.headroom) + " of " + limit);
}

std::string CalibrationCheck::too_small(const Value& value, const TensorRange& range) const {
  if (!thresholds_.underflow || !range.any_finite || range.smallest_nonzero == 0 ||
      range.infinities > 0 || range.largest() >= facts_.min_normal || is_gradient(value))
    return {};
  return "'" + value.name() + "' holds at most " + number(range.largest()) +
         " on the samples, below " + std::string(dtype_name(low_)) + "'s smallest normal value";
}

std::string CalibrationCheck::why_not(const Value& value, const ReachAnalysis& reach) const {
  const TensorRange* range = measured_.find(value);
  if (range == nullptr) return {};
  if (std::string cause = too_large(value, *range, reach.of(value)); !cause.empty()) return cause;
  return too_small(value, *range);
}

// What only matters where the value is read.
std::string CalibrationCheck::operand_cause(const Node& node, std::size_t index) const {
  const Value& value = *node.operand(index);
  const TensorRange* range = measured_.find(value);
  if (range == nullptr || !range->any_finite) return {};
  const std::string low(dtype_name(low_));
  if (thresholds_.underflow && every_element_matters(node, index) && range->smallest_nonzero != 0 &&
      range->smallest_nonzero < facts_.min_normal)
    return "operand '" + value.name() + "' holds " + number(range->smallest_nonzero) +
           " on the samples, below " + low + "'s smallest normal value, and every element of it " +
           "counts here";
  if (range->whole && range->inexact && range->largest() <= facts_.max && !contracts(node))
    return "operand '" + value.name() + "' holds whole numbers up to " + number(range->largest()) +
           " on the samples, which " + low + " cannot all tell apart";
  return {};
}

std::string CalibrationCheck::sum_cause(const Node& node) const {
  if (!thresholds_.sums || node.result() == nullptr) return {};
  const auto found = measured_.sums.find(measured_key(*node.result()));
  if (found == measured_.sums.end() || found->second.most <= facts_.max) return {};
  return "sums over " + number(found->second.depth) + " elements can pass " +
         number(found->second.most) + " on the way, beyond " + std::string(dtype_name(low_)) +
         "'s " + number(facts_.max);
}

std::string CalibrationCheck::why_fp32(const Node& node, const LowSlots& slots,
                                       const ReachAnalysis& reach) const {
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    const Value* operand = node.operand(i);
    // Constants have rules of their own.
    if (operand == nullptr || !takes(slots.operands, i) || constant_of(operand)) continue;
    if (std::string cause = why_not(*operand, reach); !cause.empty()) return "operand " + cause;
    if (std::string cause = operand_cause(node, i); !cause.empty()) return cause;
  }
  bool gives_low = false;
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    const Value* result = node.result(i);
    if (result == nullptr || !takes(slots.results, i)) continue;
    gives_low = true;
    if (std::string cause = why_not(*result, reach); !cause.empty()) return "result " + cause;
  }
  return gives_low ? sum_cause(node) : std::string();
}

}  // namespace mezzo::passes
