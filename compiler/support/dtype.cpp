#include "compiler/support/dtype.h"

#include <array>
#include <cfloat>
#include <cmath>
#include <limits>

namespace mezzo {
namespace {

struct DTypeRow {
  std::string_view name;
  int bits;
};

// Indexed by DType. Names are those of the ONNX text syntax.
constexpr std::array<DTypeRow, kDTypeCount> kRows = {{
    {"?", 0},
    {"float", 32},
    {"uint8", 8},
    {"int8", 8},
    {"uint16", 16},
    {"int16", 16},
    {"int32", 32},
    {"int64", 64},
    {"string", 0},
    {"bool", 8},
    {"float16", 16},
    {"double", 64},
    {"uint32", 32},
    {"uint64", 64},
    {"complex64", 64},
    {"complex128", 128},
    {"bfloat16", 16},
    {"float8e4m3fn", 8},
    {"float8e4m3fnuz", 8},
    {"float8e5m2", 8},
    {"float8e5m2fnuz", 8},
    {"uint4", 4},
    {"int4", 4},
    {"float4e2m1", 4},
    {"float8e8m0", 8},
    {"uint2", 2},
    {"int2", 2},
    {"float6e2m3", 6},
    {"float6e3m2", 6},
}};

const DTypeRow& row(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return kRows[index < kRows.size() ? index : 0];
}

}  // namespace

std::string_view dtype_name(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (std::size_t i = 1; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int dtype_bits(DType dtype) { return row(dtype).bits; }

std::size_t dtype_bytes(DType dtype, std::int64_t elems) {
  std::size_t bits = 0;
  // Counts of elements that no memory could hold come from shapes in files.
  if (__builtin_mul_overflow(static_cast<std::size_t>(elems),
                             static_cast<std::size_t>(dtype_bits(dtype)), &bits) ||
      bits > std::numeric_limits<std::size_t>::max() - 7) {
    return std::numeric_limits<std::size_t>::max() / 8;
  }
  return (bits + 7) / 8;
}

FloatFacts float_facts(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {65504.0, std::ldexp(1.0, -14), std::ldexp(1.0, -24), std::ldexp(1.0, -10)};
    case DType::kBFloat16:
      return {std::ldexp(255.0, 120), std::ldexp(1.0, -126), std::ldexp(1.0, -133),
              std::ldexp(1.0, -7)};
    case DType::kFloat64: return {DBL_MAX, DBL_MIN, std::ldexp(1.0, -1074), DBL_EPSILON};
    default: return {FLT_MAX, FLT_MIN, std::ldexp(1.0, -149), FLT_EPSILON};
  }
}

bool keeps_values(DType from, DType to) {
  if (from == to) return true;
  if (!is_floating(from) || !is_floating(to)) return false;
  if (to == DType::kFloat64) return true;
  return to == DType::kFloat32 && is_low(from);
}

}  // namespace mezzo
