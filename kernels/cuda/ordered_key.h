// Elements as unsigned numbers that order as the elements do: NaN above all numbers, -0 equal to 0.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/element.h"

namespace mezzo::kernels::cuda {

// For 8-byte dtypes 64 bits, for all others 32.
inline bool has_wide_key(DType dtype) { return dtype_bits(dtype) > 32; }

inline constexpr std::uint64_t kNarrowKeys = 0xffffffffU;

template <typename U>
__device__ std::uint64_t ordered_key_of(U element) {
  constexpr std::uint64_t kWideSign = std::uint64_t{1} << 63;
  constexpr std::uint32_t kSign = std::uint32_t{1} << 31;
  if constexpr (std::is_same_v<U, double>) {
    if (element != element) return ~std::uint64_t{0};
    const double value = element == 0.0 ? 0.0 : element;
    std::uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & kWideSign) != 0 ? ~bits : bits | kWideSign;
  } else if constexpr (std::is_same_v<U, BoolElement>) {
    return element.bits != 0 ? 1 : 0;
  } else if constexpr (!std::is_integral_v<U>) {
    const float number = number_of<float>(element);
    if (number != number) return kNarrowKeys;
    const float value = number == 0.0F ? 0.0F : number;
    std::uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (sizeof(U) == 8) {
    const auto bits = static_cast<std::uint64_t>(element);
    return std::is_signed_v<U> ? bits ^ kWideSign : bits;
  } else {
    const auto bits = static_cast<std::uint32_t>(element);
    return std::is_signed_v<U> ? bits ^ kSign : bits;
  }
}

// REQUIRES: has_elements(dtype).
__device__ inline std::uint64_t load_key(const void* data, std::int64_t at, DType dtype) {
  std::uint64_t key = 0;
  with_element(dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    key = ordered_key_of(static_cast<const U*>(data)[at]);
  });
  return key;
}

}  // namespace mezzo::kernels::cuda
