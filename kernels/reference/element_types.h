// Elements as they lie in memory, and how kernels that are templates over the element's type are
// chosen by dtype: once per run, not once per element.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "compiler/support/half.h"
#include "kernels/reference/element.h"

namespace mezzo::kernels::reference {

struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Bool {
  std::uint8_t bits;
};

template <typename T>
constexpr bool kIsFloat =
    std::is_floating_point_v<T> || std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// What an element of type T is computed with: double for floating types, T itself for integers,
// bool for Bool.
template <typename T>
using NumberOf =
    std::conditional_t<kIsFloat<T>, double, std::conditional_t<std::is_same_v<T, Bool>, bool, T>>;

template <typename T>
T saturate(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(value);
}

template <typename T>
double decode(T element) {
  if constexpr (std::is_same_v<T, Float16>) {
    return static_cast<double>(f16_to_float(element.bits));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return static_cast<double>(bf16_to_float(element.bits));
  } else if constexpr (std::is_same_v<T, Bool>) {
    return element.bits != 0 ? 1.0 : 0.0;
  } else {
    return static_cast<double>(element);
  }
}

// Rounds or saturates as element.h says.
template <typename T>
T encode(double value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return {double_to_f16(value)};
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return {double_to_bf16(value)};
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<std::uint8_t>(value != 0.0)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    return saturate<T>(value);
  }
}

template <typename T>
NumberOf<T> number_of(T element) {
  if constexpr (kIsFloat<T>) {
    return decode(element);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return element.bits != 0;
  } else {
    return element;
  }
}
template <typename T>
T element_of(NumberOf<T> number) {
  if constexpr (kIsFloat<T>) {
    return encode<T>(number);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return {static_cast<std::uint8_t>(number)};
  } else {
    return number;
  }
}

template <typename T>
struct TypeTag {
  using Type = T;
};

// visit(TypeTag<T>()) for the element type of `dtype`. REQUIRES: has_elements(dtype).
template <typename Visit>
auto with_element_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat64: return visit(TypeTag<double>());
    case DType::kFloat16: return visit(TypeTag<Float16>());
    case DType::kBFloat16: return visit(TypeTag<BFloat16>());
    case DType::kInt8: return visit(TypeTag<std::int8_t>());
    case DType::kInt16: return visit(TypeTag<std::int16_t>());
    case DType::kInt32: return visit(TypeTag<std::int32_t>());
    case DType::kInt64: return visit(TypeTag<std::int64_t>());
    case DType::kUInt8: return visit(TypeTag<std::uint8_t>());
    case DType::kUInt16: return visit(TypeTag<std::uint16_t>());
    case DType::kUInt32: return visit(TypeTag<std::uint32_t>());
    case DType::kUInt64: return visit(TypeTag<std::uint64_t>());
    case DType::kBool: return visit(TypeTag<Bool>());
    default: return visit(TypeTag<float>());
  }
}

// The same for float, double, float16 and bfloat16. REQUIRES: is_floating(dtype).
template <typename Visit>
auto with_float_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat64: return visit(TypeTag<double>());
    case DType::kFloat16: return visit(TypeTag<Float16>());
    case DType::kBFloat16: return visit(TypeTag<BFloat16>());
    default: return visit(TypeTag<float>());
  }
}

// The same for elements that are only moved, by their size. REQUIRES: 1, 2, 4, 8 or 16 bytes.
__extension__ typedef unsigned __int128 SixteenBytes;
template <typename Visit>
auto with_element_bytes(std::size_t bytes, Visit&& visit) {
  switch (bytes) {
    case 1: return visit(TypeTag<std::uint8_t>());
    case 2: return visit(TypeTag<std::uint16_t>());
    case 4: return visit(TypeTag<std::uint32_t>());
    case 8: return visit(TypeTag<std::uint64_t>());
    default: return visit(TypeTag<SixteenBytes>());
  }
}

}  // namespace mezzo::kernels::reference
