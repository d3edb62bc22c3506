#include "compiler/ops/constants.h"

#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace mezzo {
namespace {

// Longer lists than these are no axes, shapes or scalars, and need not be read.
constexpr std::int64_t kMostElems = 65536;

// The dense forms of a Constant node.
TensorRef tensor_of_constant_node(const Node& node) {
  if (const Attribute* value = node.attribute("value")) {
    const auto* tensor = std::get_if<NamedTensor>(&value->value);
    return tensor == nullptr ? nullptr : tensor->tensor;
  }
  const auto get = [&]<typename T>(std::string_view name, const T*& out) {
    const Attribute* attribute = node.attribute(name);
    out = attribute == nullptr ? nullptr : std::get_if<T>(&attribute->value);
    return out != nullptr;
  };
  const float* f = nullptr;
  const std::int64_t* i = nullptr;
  const std::vector<float>* floats = nullptr;
  const std::vector<std::int64_t>* ints = nullptr;
  if (get("value_float", f)) return Tensor::from_floats({}, {f, 1});
  if (get("value_int", i)) return Tensor::from_ints({}, {i, 1});
  if (get("value_floats", floats))
    return Tensor::from_floats({static_cast<std::int64_t>(floats->size())}, *floats);
  if (get("value_ints", ints))
    return Tensor::from_ints({static_cast<std::int64_t>(ints->size())}, *ints);
  return nullptr;
}

// Position in row-major order of element number `at` of a sparse tensor; nullopt if its indices
// leave the tensor.
std::optional<std::int64_t> linear_index(const SparseTensor& sparse,
                                         const std::vector<std::int64_t>& indices, std::int64_t at,
                                         std::int64_t elems) {
  const auto rank = static_cast<std::int64_t>(sparse.dims.size());
  std::int64_t index = 0;
  if (sparse.indices->dims().size() == 1) {
    index = indices[static_cast<std::size_t>(at)];
  } else {
    for (std::int64_t d = 0; d < rank; ++d) {
      const std::int64_t i = indices[static_cast<std::size_t>(at * rank + d)];
      const std::int64_t extent = sparse.dims[static_cast<std::size_t>(d)];
      if (i < 0 || i >= extent) return std::nullopt;
      index = index * extent + i;
    }
  }
  return index >= 0 && index < elems ? std::optional(index) : std::nullopt;
}

// A small sparse tensor of whole-byte elements in dense form; null for others and broken ones.
TensorRef spell_out(const SparseTensor& sparse) {
  if (!sparse.values || !sparse.indices) return nullptr;
  std::int64_t elems = 1;
  for (const std::int64_t extent : sparse.dims) {
    if (extent < 0 || extent > kMostElems) return nullptr;
    elems *= extent;
    if (elems > kMostElems) return nullptr;
  }
  const int bits = dtype_bits(sparse.values->dtype());
  const std::int64_t stored = sparse.values->elems();
  const std::vector<std::int64_t> indices = sparse.indices->to_ints();
  const std::size_t per_element = sparse.indices->dims().size() == 1 ? 1 : sparse.dims.size();
  if (bits == 0 || bits % 8 != 0 || stored > kMostElems ||
      indices.size() != static_cast<std::size_t>(stored) * per_element)
    return nullptr;
  const auto size = static_cast<std::size_t>(bits / 8);
  const std::vector<std::byte> values = sparse.values->copy_bytes();
  if (values.size() < static_cast<std::size_t>(stored) * size) return nullptr;  // cannot be read
  std::vector<std::byte> dense(static_cast<std::size_t>(elems) * size);
  for (std::int64_t at = 0; at < stored; ++at) {
    const auto index = linear_index(sparse, indices, at, elems);
    if (!index) return nullptr;
    std::memcpy(dense.data() + static_cast<std::size_t>(*index) * size,
                values.data() + static_cast<std::size_t>(at) * size, size);
  }
  return Tensor::from_bytes(sparse.values->dtype(), sparse.dims, std::move(dense));
}

TensorRef sparse_constant_of(const Value& value) {
  if (value.is_fixed() && value.sparse_constant()) return spell_out(*value.sparse_constant());
  const Node* producer = value.producer();
  const Attribute* attribute = producer != nullptr && producer->is("Constant")
                                   ? producer->attribute("sparse_value")
                                   : nullptr;
  if (attribute == nullptr) return nullptr;
  const auto* sparse = std::get_if<std::shared_ptr<const SparseTensor>>(&attribute->value);
  return sparse == nullptr || !*sparse ? nullptr : spell_out(**sparse);
}

}  // namespace

TensorRef constant_data(const Value& value) {
  if (value.is_fixed()) return value.constant();
  const Node* producer = value.producer();
  return producer != nullptr && producer->is("Constant") ? tensor_of_constant_node(*producer)
                                                         : nullptr;
}

TensorRef constant_of(const Value* value) {
  while (value != nullptr) {
    if (TensorRef data = constant_data(*value)) return data;
    const Node* producer = value->producer();
    if (producer == nullptr || !producer->is("Identity")) return sparse_constant_of(*value);
    value = producer->operand(0);
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
