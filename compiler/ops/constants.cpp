#include "compiler/ops/constants.h"

namespace mezzo {
namespace {

// Longer lists than these are no axes, shapes or scalars, and need not be read.
constexpr std::int64_t kMostElems = 65536;

TensorRef tensor_of_constant_node(const Node& node) {
  using Kind = Attribute::Kind;
  for (const Attribute& attribute : node.attributes()) {
    switch (attribute.kind()) {
      case Kind::kTensor: return std::get<NamedTensor>(attribute.value).tensor;
      case Kind::kInt:
        return Tensor::from_ints({}, std::vector{std::get<std::int64_t>(attribute.value)});
      case Kind::kFloat:
        return Tensor::from_floats({}, std::vector{std::get<float>(attribute.value)});
      case Kind::kInts: {
        const auto& values = std::get<std::vector<std::int64_t>>(attribute.value);
        return Tensor::from_ints({static_cast<std::int64_t>(values.size())}, values);
      }
      case Kind::kFloats: {
        const auto& values = std::get<std::vector<float>>(attribute.value);
        return Tensor::from_floats({static_cast<std::int64_t>(values.size())}, values);
      }
      default: break;
    }
  }
  return nullptr;
}

}  // namespace

TensorRef constant_of(const Value* value) {
  while (value != nullptr) {
    if (value->is_fixed()) return value->constant();
    const Node* producer = value->producer();
    if (producer == nullptr) return nullptr;
    if (producer->is("Constant")) return tensor_of_constant_node(*producer);
    value = producer->is("Identity") ? producer->operand(0) : nullptr;
  }
  return nullptr;
}

std::optional<std::vector<std::int64_t>> constant_ints(const Value* value) {
  const TensorRef tensor = constant_of(value);
  if (!tensor || tensor->elems() > kMostElems) return std::nullopt;
  std::vector<std::int64_t> values = tensor->to_ints();
  if (static_cast<std::int64_t>(values.size()) != tensor->elems()) return std::nullopt;
  return values;
}

std::optional<std::vector<std::int64_t>> static_dims(const Value* value) {
  if (value == nullptr || !value->type.is_tensor() || !value->tensor_type().has_static_shape()) {
    return std::nullopt;
  }
  return value->tensor_type().dims();
}

std::optional<double> constant_scalar(const Value* value) {
  const TensorRef tensor = constant_of(value);
  if (!tensor || tensor->elems() != 1) return std::nullopt;
  const std::vector<double> values = tensor->to_doubles();
  return values.size() == 1 ? std::optional(values[0]) : std::nullopt;
}

}  // namespace mezzo
