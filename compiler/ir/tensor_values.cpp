// Elements of small constants as numbers, and scalars from numbers.
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/ir/cast_elems.h"
#include "compiler/ir/tensor.h"

namespace mezzo {
namespace {

template <typename T, typename Out>
std::vector<Out> widen(std::span<const std::byte> bytes, std::size_t elems) {
  std::vector<Out> values(elems);
  for (std::size_t i = 0; i < elems; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<Out>(value);
  }
  return values;
}

enum class Sign { kUnsigned, kSigned };

// Elements of `bits` bits, the first in the lowest bits of a byte.
template <typename Out>
std::vector<Out> unpack(std::span<const std::byte> bytes, std::size_t elems, unsigned bits,
                        Sign sign) {
  std::vector<Out> values(elems);
  const unsigned per_byte = 8 / bits;
  const int top = 1 << (bits - 1);
  for (std::size_t i = 0; i < elems; ++i) {
    const auto byte = std::to_integer<unsigned>(bytes[i / per_byte]);
    int value = static_cast<int>((byte >> (i % per_byte * bits)) & ((1U << bits) - 1));
    if (sign == Sign::kSigned) value = (value ^ top) - top;
    values[i] = static_cast<Out>(value);
  }
  return values;
}

template <typename Out>
std::vector<Out> integers(DType dtype, std::span<const std::byte> bytes, std::size_t elems) {
  switch (dtype) {
    case DType::kInt8: return widen<std::int8_t, Out>(bytes, elems);
    case DType::kUInt8: return widen<std::uint8_t, Out>(bytes, elems);
    case DType::kInt16: return widen<std::int16_t, Out>(bytes, elems);
    case DType::kUInt16: return widen<std::uint16_t, Out>(bytes, elems);
    case DType::kInt32: return widen<std::int32_t, Out>(bytes, elems);
    case DType::kUInt32: return widen<std::uint32_t, Out>(bytes, elems);
    case DType::kInt64: return widen<std::int64_t, Out>(bytes, elems);
    case DType::kUInt64: return widen<std::uint64_t, Out>(bytes, elems);
    case DType::kInt4: return unpack<Out>(bytes, elems, 4, Sign::kSigned);
    case DType::kUInt4: return unpack<Out>(bytes, elems, 4, Sign::kUnsigned);
    case DType::kInt2: return unpack<Out>(bytes, elems, 2, Sign::kSigned);
    case DType::kUInt2: return unpack<Out>(bytes, elems, 2, Sign::kUnsigned);
    case DType::kBool: {
      std::vector<Out> values(elems);
      for (std::size_t i = 0; i < elems; ++i) values[i] = bytes[i] != std::byte{0} ? 1 : 0;
      return values;
    }
    default: return {};
  }
}

// The bytes, in `copy` if they must be computed; empty if the tensor does not hold them all.
std::span<const std::byte> readable_bytes(const Tensor& tensor, std::vector<std::byte>& copy) {
  std::span<const std::byte> bytes = tensor.stored_bytes();
  if (bytes.empty()) {
    copy = tensor.copy_bytes();
    bytes = copy;
  }
  return bytes.size() == tensor.byte_size() ? bytes : std::span<const std::byte>();
}

template <typename T>
T clamp_to(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  // For 64 bits the limit below is one beyond the largest value, for others it is exact.
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}

template <typename T>
std::vector<std::byte> integer_bytes(double value) {
  const T integer = clamp_to<T>(value);
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &integer, sizeof(T));
  return bytes;
}

std::vector<std::byte> packed_bytes(double value, double low, double high, unsigned mask) {
  const double clamped = std::isnan(value) ? 0 : std::min(std::max(value, low), high);
  return {static_cast<std::byte>(static_cast<unsigned>(static_cast<int>(clamped)) & mask)};
}

std::vector<std::byte> scalar_bytes(DType dtype, double value) {
  if (is_floating(dtype)) {
    std::vector<std::byte> bytes(dtype_bytes(dtype, 1));
    cast_elems(DType::kFloat64, dtype, Overflow::kInfinity,
               reinterpret_cast<const std::byte*>(&value), bytes.data(), 1);
    return bytes;
  }
  const double rounded = std::nearbyint(value);
  switch (dtype) {
    case DType::kInt8: return integer_bytes<std::int8_t>(rounded);
    case DType::kUInt8: return integer_bytes<std::uint8_t>(rounded);
    case DType::kInt16: return integer_bytes<std::int16_t>(rounded);
    case DType::kUInt16: return integer_bytes<std::uint16_t>(rounded);
    case DType::kInt32: return integer_bytes<std::int32_t>(rounded);
    case DType::kUInt32: return integer_bytes<std::uint32_t>(rounded);
    case DType::kInt64: return integer_bytes<std::int64_t>(rounded);
    case DType::kUInt64: return integer_bytes<std::uint64_t>(rounded);
    case DType::kInt4: return packed_bytes(rounded, -8, 7, 0xfU);
    case DType::kUInt4: return packed_bytes(rounded, 0, 15, 0xfU);
    case DType::kInt2: return packed_bytes(rounded, -2, 1, 0x3U);
    case DType::kUInt2: return packed_bytes(rounded, 0, 3, 0x3U);
    case DType::kBool: return {value != 0 ? std::byte{1} : std::byte{0}};
    default: return std::vector<std::byte>(dtype_bytes(dtype, 1));
  }
}

}  // namespace

TensorRef Tensor::scalar(DType dtype, double value) {
  return from_bytes(dtype, {}, scalar_bytes(dtype, value));
}

std::vector<double> Tensor::to_doubles() const {
  std::vector<std::byte> copy;
  const std::span<const std::byte> bytes = readable_bytes(*this, copy);
  if (bytes.empty()) return {};
  const auto elems = static_cast<std::size_t>(this->elems());
  if (!is_floating(dtype_)) return integers<double>(dtype_, bytes, elems);
  std::vector<double> values(elems);
  cast_elems(dtype_, DType::kFloat64, Overflow::kInfinity, bytes.data(),
             reinterpret_cast<std::byte*>(values.data()), elems);
  return values;
}

std::vector<std::int64_t> Tensor::to_ints() const {
  if (is_floating(dtype_)) return {};
  std::vector<std::byte> copy;
  const std::span<const std::byte> bytes = readable_bytes(*this, copy);
  if (bytes.empty()) return {};
  return integers<std::int64_t>(dtype_, bytes, static_cast<std::size_t>(elems()));
}

}  // namespace mezzo
