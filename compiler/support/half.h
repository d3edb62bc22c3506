// float16 and bfloat16 as 16-bit patterns, converted with round to nearest, ties to even, as
// IEEE 754 and ONNX's Cast ask. NaN stays NaN, overflow becomes infinity, subnormals are kept.
// Portable scalar code; kernels/cpu has vectorised forms that must give the same bits.
#pragma once

#include <bit>
#include <cstdint>

namespace mezzo {

inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return sign | 0x7e00U;   // NaN
  if (magnitude >= 0x477ff000U) return sign | 0x7c00U;  // rounds to infinity
  if (magnitude < 0x38800000U) {                        // subnormal in float16, or zero
    // Adding 0.5 aligns the 10 remaining bits to the end of the mantissa; the adder rounds.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

inline float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00U) {
    return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
  }
  if (magnitude < 0x400U) {  // subnormal: value = magnitude x 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
}

}  // namespace mezzo
