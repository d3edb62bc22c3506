// Types of values, as ONNX's TypeProto has them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/dtype.h"

namespace mezzo {

// One dimension: a number, a symbol ("batch"), or unknown.
struct Dim {
  static constexpr std::int64_t kUnknown = -1;

  std::int64_t value = kUnknown;
  std::string symbol;
  std::string denotation;  // ONNX's, only carried along

  Dim() = default;
  Dim(std::int64_t v) : value(v) {}
  static Dim symbolic(std::string name) {
    Dim dim;
    dim.symbol = std::move(name);
    return dim;
  }
  bool known() const { return value >= 0; }
  bool operator==(const Dim&) const = default;
};

// Element type and shape; also the dense view of a sparse tensor.
struct TensorType {
  DType dtype = DType::kNone;
  std::optional<std::vector<Dim>> shape;  // nullopt: rank unknown

  TensorType() = default;
  TensorType(DType type, std::vector<Dim> dims) : dtype(type), shape(std::move(dims)) {}
  static TensorType of(DType type, const std::vector<std::int64_t>& dims) {
    return {type, std::vector<Dim>(dims.begin(), dims.end())};
  }

  bool has_static_shape() const;
  // REQUIRES: has_static_shape() for both.
  std::vector<std::int64_t> dims() const;
  std::int64_t elems() const;
  std::optional<std::size_t> rank() const {
    return shape ? std::optional(shape->size()) : std::nullopt;
  }
  bool operator==(const TensorType&) const = default;
};

struct Type {
  enum class Kind : std::uint8_t {
    kUnknown,
    kTensor,
    kSparseTensor,
    kSequence,
    kOptional,
    kMap,
    kOpaque
  };
  Kind kind = Kind::kUnknown;
  TensorType tensor;         // kTensor, kSparseTensor
  DType key = DType::kNone;  // kMap
  std::shared_ptr<const Type>
      element;  // kSequence, kOptional, kMap (the value's type); may be null
  std::string opaque_domain, opaque_name;
  std::string denotation;

  Type() = default;
  Type(TensorType type) : kind(Kind::kTensor), tensor(std::move(type)) {}
  bool is_tensor() const { return kind == Kind::kTensor; }
  // Element type of a tensor, kNone for all else.
  DType dtype() const { return is_tensor() ? tensor.dtype : DType::kNone; }
  bool operator==(const Type& other) const;
};

// "float[2,3,batch]", "float[?]" for unknown dimensions, "float" for an unknown rank.
std::string to_string(const TensorType& type);
std::string to_string(const Type& type);

}  // namespace mezzo
