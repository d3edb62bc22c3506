// Element types and the facts about them. Numbers equal onnx.TensorProto.DataType and are written
// to plans and checkpoints: they must not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mezzo {

enum class DType : std::uint8_t {
  kNone = 0,  // unknown, or an absent optional operand
  kFloat32 = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUInt32 = 12,
  kUInt64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUInt4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUInt2 = 25,
  kInt2 = 26,
  kFloat6E2M3 = 27,
  kFloat6E3M2 = 28,
};
inline constexpr int kDTypeCount = 29;

// "float", "float16", ... as in ONNX text; "?" for kNone.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);

// Bits of one element as stored in raw_data; 0 for kString and kNone.
int dtype_bits(DType dtype);

// Bytes of `elems` elements; types under 8 bits are packed. REQUIRES: elems >= 0.
std::size_t dtype_bytes(DType dtype, std::int64_t elems);

// float, float16, bfloat16 or double: the types that precision passes may exchange.
constexpr bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16 ||
         dtype == DType::kFloat64;
}
constexpr bool is_low(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Range and precision of a floating type (IEEE 754 binary16/32/64 and bfloat16).
struct FloatFacts {
  double max;            // largest finite value: 65504 for float16
  double min_normal;     // smallest positive normal value
  double min_subnormal;  // smallest positive value: 5.96e-8 for float16
  double epsilon;        // distance from 1 to the next value
};
// REQUIRES: is_floating(dtype).
FloatFacts float_facts(DType dtype);

// True if every value of `from` is a value of `to`: a cast there and back loses nothing.
bool keeps_values(DType from, DType to);

}  // namespace mezzo
