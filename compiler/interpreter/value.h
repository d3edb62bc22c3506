// Values at run time: what a graph's inputs, outputs and intermediate results hold.
//
// Buffers are shared and never change once a node has written them, so that a Reshape, an Identity
// or a slice of a sequence costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/ir/type.h"
#include "compiler/support/dtype.h"

namespace mezzo {

// A dense tensor in row-major order; no strings. Elements of 4 and 2 bits share bytes, from the low
// end on.
struct HostTensor {
  DType dtype = DType::kNone;
  std::vector<std::int64_t> dims;         // empty: a scalar
  std::shared_ptr<const std::byte> data;  // aligned to 64 bytes; not null, even without elements

  std::int64_t elems() const;
  std::size_t bytes() const { return dtype_bytes(dtype, elems()); }
  template <typename T>
  const T* data_as() const {
    return reinterpret_cast<const T*>(data.get());
  }
  Type type() const { return TensorType::of(dtype, dims); }
};

// A tensor, a sequence, or nothing: an optional without element, or an operand that was left out.
// An optional that holds something is that something.
struct RuntimeValue {
  enum class Kind : std::uint8_t { kNone, kTensor, kSequence };
  Kind kind = Kind::kNone;
  HostTensor tensor;
  std::vector<RuntimeValue> elements;  // of a sequence

  RuntimeValue() = default;
  RuntimeValue(HostTensor value) : kind(Kind::kTensor), tensor(std::move(value)) {}
  static RuntimeValue sequence(std::vector<RuntimeValue> elements);

  bool is_none() const { return kind == Kind::kNone; }
  bool is_tensor() const { return kind == Kind::kTensor; }
  bool is_sequence() const { return kind == Kind::kSequence; }
};

// "float[2,3]", "sequence of 4", "nothing"
std::string describe(const RuntimeValue& value);

}  // namespace mezzo
