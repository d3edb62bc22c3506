#include "runtime/train/element_cast.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "compiler/support/half.h"

namespace mezzo::runtime {
namespace {

// 16-bit floats by their pattern; bool as 0 or 1 in a byte of its own type.
struct F16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};
struct Bool {
  std::uint8_t value;
};

template <typename T>
constexpr bool kIsFloat =
    std::is_floating_point_v<T> || std::is_same_v<T, F16> || std::is_same_v<T, Bf16>;

// Bits of the mantissa, the hidden one included: integers up to 2^kDigits are exact.
template <typename T>
constexpr int kDigits = std::is_same_v<T, F16>    ? 11
                        : std::is_same_v<T, Bf16> ? 8
                                                  : std::numeric_limits<T>::digits;

// The number an element stands for: float, double or an integer.
template <typename T>
auto value_of(T element) {
  if constexpr (std::is_same_v<T, F16>) {
    return f16_to_float(element.bits);
  } else if constexpr (std::is_same_v<T, Bf16>) {
    return bf16_to_float(element.bits);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return static_cast<std::uint8_t>(element.value != 0);
  } else {
    return element;
  }
}

template <typename To, typename Value>
To make(Value value) {
  // double -> float16 by way of float may round twice; data has no use for that last half bit.
  if constexpr (std::is_same_v<To, F16>) {
    return {float_to_f16(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return {float_to_bf16(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<std::uint8_t>(value != 0)};
  } else {
    return static_cast<To>(value);
  }
}

template <typename From>
From load_element(const std::byte* from, std::int64_t i) {
  From element;
  std::memcpy(&element, from + i * static_cast<std::int64_t>(sizeof(From)), sizeof(From));
  return element;
}

template <typename From, typename To>
void cast(const std::byte* from, std::byte* to, std::int64_t n) {
  if constexpr (std::is_same_v<From, To>) {
    if (n > 0) std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(From));
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      const To element = make<To>(value_of(load_element<From>(from, i)));
      std::memcpy(to + i * static_cast<std::int64_t>(sizeof(To)), &element, sizeof(To));
    }
  }
}

template <typename To, typename Value>
std::optional<ElementFault> fault_of(Value value) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (std::isnan(value)) return ElementFault::kNotANumber;
    if (std::isinf(value)) return ElementFault::kInfinite;
    if (!std::isfinite(value_of(make<To>(value)))) return ElementFault::kOutOfRange;
  } else if constexpr (kIsFloat<To>) {
    constexpr int kBits = kDigits<To> < 62 ? kDigits<To> : 62;
    constexpr std::int64_t kMost = std::int64_t{1} << kBits;
    if (std::cmp_greater(value, kMost) || std::cmp_less(value, -kMost)) {
      return ElementFault::kOutOfRange;
    }
  } else if constexpr (std::is_same_v<To, Bool>) {
    if (value != 0 && value != 1) return ElementFault::kOutOfRange;
  } else {
    if (!std::in_range<To>(value)) return ElementFault::kOutOfRange;
  }
  return std::nullopt;
}

template <typename From, typename To>
std::optional<FaultyElement> check(const std::byte* data, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (const auto fault = fault_of<To>(value_of(load_element<From>(data, i)))) {
      return FaultyElement{i, *fault};
    }
  }
  return std::nullopt;
}

using CheckFunction = std::optional<FaultyElement> (*)(const std::byte*, std::int64_t);
struct Functions {
  CastFunction cast = nullptr;
  CheckFunction check = nullptr;
};

template <typename From, typename To>
Functions functions() {
  if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    return {};
  } else {
    return {&cast<From, To>, &check<From, To>};
  }
}

// Calls visit.operator()<T>() with the C++ type of a dtype.
template <typename Visit>
Functions with_type(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::kFloat32: return visit.template operator()<float>();
    case DType::kFloat64: return visit.template operator()<double>();
    case DType::kFloat16: return visit.template operator()<F16>();
    case DType::kBFloat16: return visit.template operator()<Bf16>();
    case DType::kBool: return visit.template operator()<Bool>();
    case DType::kUInt8: return visit.template operator()<std::uint8_t>();
    case DType::kInt8: return visit.template operator()<std::int8_t>();
    case DType::kUInt16: return visit.template operator()<std::uint16_t>();
    case DType::kInt16: return visit.template operator()<std::int16_t>();
    case DType::kUInt32: return visit.template operator()<std::uint32_t>();
    case DType::kInt32: return visit.template operator()<std::int32_t>();
    case DType::kUInt64: return visit.template operator()<std::uint64_t>();
    case DType::kInt64: return visit.template operator()<std::int64_t>();
    default: return {};
  }
}

Functions functions_of(DType from, DType to) {
  return with_type(from, [&]<typename From>() {
    return with_type(to, []<typename To>() { return functions<From, To>(); });
  });
}

}  // namespace

CastFunction element_cast(DType from, DType to) { return functions_of(from, to).cast; }

std::optional<FaultyElement> check_elements(DType from, DType to, const std::byte* data,
                                            std::int64_t n) {
  const CheckFunction check = functions_of(from, to).check;
  return check != nullptr ? check(data, n) : std::nullopt;
}

}  // namespace mezzo::runtime
