#include "passes/precision/range.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/support/text.h"

namespace mezzo::passes {
namespace {

constexpr double kMaskThreshold = -1e4;  // what exporters write for "never": -1e4, -1e9, -3.4e38

struct Extremes {
  double largest = 0, smallest_nonzero = 0;
  bool infinite = false, large_positive = false;
};

// Extremes of an FP32 tensor, read piece by piece where it lies.
Extremes extremes_of(const Tensor& tensor, double limit) {
  Extremes found;
  const Status status = tensor.stream([&](std::span<const std::byte> piece) {
    for (std::size_t at = 0; at + sizeof(float) <= piece.size(); at += sizeof(float)) {
      float element = 0;
      std::memcpy(&element, piece.data() + at, sizeof element);
      const double magnitude = std::fabs(static_cast<double>(element));
      if (std::isnan(element) || magnitude == 0) continue;
      if (std::isinf(element)) {
        found.infinite = true;
        continue;
      }
      found.largest = std::max(found.largest, magnitude);
      found.large_positive = found.large_positive || element > limit;
      if (found.smallest_nonzero == 0 || magnitude < found.smallest_nonzero)
        found.smallest_nonzero = magnitude;
    }
    return ok_status();
  });
  return status.ok() ? found : Extremes{};
}

// Added to scores, multiplied by a 0/1 mask, chosen by Where, or the floor of a Max or Clip: the
// value only has to be far below all others.
bool only_masks(const Value& value) {
  return std::all_of(value.uses().begin(), value.uses().end(), [](const Use& use) {
    const std::string& op = use.node->op_type();
    return op == "Add" || op == "Mul" || op == "Where" || op == "Max" || op == "Clip" ||
           op == "Expand" || op == "Identity" || op == "Unsqueeze" || op == "Reshape" ||
           op == "Slice" || op == "Pad";
  });
}

}  // namespace

TensorRef constant_data(const Value& value) {
  if (value.is_fixed()) return value.constant();
  const Node* producer = value.producer();
  if (producer == nullptr || !producer->is("Constant")) return nullptr;
  const Attribute* attribute = producer->attribute("value");
  const auto* tensor = attribute == nullptr ? nullptr : std::get_if<NamedTensor>(&attribute->value);
  if (tensor != nullptr) return tensor->tensor;
  if (producer->has_attribute("value_float"))
    return Tensor::scalar(DType::kFloat32, producer->float_attribute("value_float", 0));
  return nullptr;
}

const ConstantRange& RangeCheck::check(const Value& value) {
  const auto found = seen_.find(&value);
  if (found != seen_.end()) return found->second;
  return seen_.emplace(&value, measure(value)).first->second;
}

ConstantRange RangeCheck::measure(const Value& value) const {
  ConstantRange range;
  const TensorRef data = constant_data(value);
  if (!data || data->dtype() != DType::kFloat32) return range;
  const FloatFacts facts = float_facts(low_);
  const Extremes found = extremes_of(*data, facts.max);
  range.largest = found.largest;
  range.smallest_nonzero = found.smallest_nonzero;
  range.has_infinity = found.infinite;
  const std::string low_name(dtype_name(low_));
  if (found.largest > facts.max) {
    range.saturates =
        !found.large_positive && -found.largest <= kMaskThreshold && only_masks(value);
    range.fits = range.saturates;
    range.why = "holds " + format_number(static_cast<float>(found.largest)) +
                " in magnitude, beyond " + low_name + "'s " +
                format_number(static_cast<float>(facts.max));
  } else if (data->elems() == 1 && found.smallest_nonzero != 0 &&
             found.smallest_nonzero < facts.min_normal) {
    range.fits = false;
    range.why = "is " + format_number(static_cast<float>(found.smallest_nonzero)) + ", below " +
                low_name + "'s smallest normal value";
  }
  return range;
}

}  // namespace mezzo::passes
