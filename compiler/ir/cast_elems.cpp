#include "compiler/ir/cast_elems.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "compiler/ir/float_loops.h"
#include "compiler/support/half.h"

namespace mezzo {
namespace {

// How elements of a type are stored, and the type that holds them exactly while computing.
struct F32 {
  static constexpr float kMax = std::numeric_limits<float>::max();
  using Stored = float;
  static float load(float value) { return value; }
  static float store(float value) { return value; }
  static float store(double value) { return static_cast<float>(value); }
};
struct F64 {
  static constexpr double kMax = std::numeric_limits<double>::max();
  using Stored = double;
  static double load(double value) { return value; }
  static double store(double value) { return value; }
};

// Rounds to float such that a second rounding to 16 bits gives the result of a single one: inexact
// results are truncated and their last bit set ("round to odd": Boldo and Melquiond, Emulation of
// FMA and correctly rounded sums, IEEE Trans. Computers 57(4), 2008).
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  const std::uint32_t truncated = std::fabs(back) > std::fabs(value) ? bits - 1 : bits;
  return std::bit_cast<float>(truncated | 1U);
}

struct F16 {
  static constexpr float kMax = 65504.0F;
  using Stored = std::uint16_t;
  static float load(std::uint16_t bits) { return f16_to_float(bits); }
  static std::uint16_t store(float value) { return float_to_f16(value); }
  static std::uint16_t store(double value) { return float_to_f16(round_to_odd(value)); }
};
struct BF16 {
  static constexpr float kMax = 0x1.fep127F;
  using Stored = std::uint16_t;
  static float load(std::uint16_t bits) { return bf16_to_float(bits); }
  static std::uint16_t store(float value) { return float_to_bf16(value); }
  static std::uint16_t store(double value) { return float_to_bf16(round_to_odd(value)); }
};

template <typename From, typename To, Overflow overflow>
void cast_block(const std::byte* source, std::byte* target, std::size_t elems) {
  for (std::size_t i = 0; i < elems; ++i) {
    typename From::Stored stored;
    std::memcpy(&stored, source + i * sizeof(stored), sizeof(stored));
    using Wide = decltype(From::load(stored) + To::kMax);  // holds both ranges
    Wide value = From::load(stored);
    if constexpr (overflow == Overflow::kSaturate) {
      if (value > To::kMax) value = To::kMax;  // comparisons leave NaN alone
      if (value < -To::kMax) value = -To::kMax;
    }
    const typename To::Stored result = To::store(value);
    std::memcpy(target + i * sizeof(result), &result, sizeof(result));
  }
}

using CastBlock = void (*)(const std::byte*, std::byte*, std::size_t);

template <typename From, typename To>
CastBlock pick(Overflow overflow) {
  return overflow == Overflow::kSaturate ? cast_block<From, To, Overflow::kSaturate>
                                         : cast_block<From, To, Overflow::kInfinity>;
}

template <typename From>
CastBlock pick(DType to, Overflow overflow) {
  switch (to) {
    case DType::kFloat16: return pick<From, F16>(overflow);
    case DType::kBFloat16: return pick<From, BF16>(overflow);
    case DType::kFloat64: return pick<From, F64>(overflow);
    default: return pick<From, F32>(overflow);
  }
}

CastBlock pick(DType from, DType to, Overflow overflow) {
  switch (from) {
    case DType::kFloat16: return pick<F16>(to, overflow);
    case DType::kBFloat16: return pick<BF16>(to, overflow);
    case DType::kFloat64: return pick<F64>(to, overflow);
    default: return pick<F32>(to, overflow);
  }
}

}  // namespace

void cast_elems(DType from, DType to, Overflow overflow, const std::byte* source, std::byte* target,
                std::size_t elems) {
  // What large weights take.
  if (from == DType::kFloat32 && to == DType::kFloat16)
    return narrow_to_f16(source, target, elems, overflow);
  if (from == DType::kFloat32 && to == DType::kBFloat16)
    return narrow_to_bf16(source, target, elems, overflow);
  pick(from, to, overflow)(source, target, elems);
}

double round_to(DType dtype, double value) {
  std::array<std::byte, sizeof(double)> stored;
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  cast_elems(DType::kFloat64, dtype, Overflow::kInfinity, bytes, stored.data(), 1);
  double rounded = 0;
  cast_elems(dtype, DType::kFloat64, Overflow::kInfinity, stored.data(),
             reinterpret_cast<std::byte*>(&rounded), 1);
  return rounded;
}

}  // namespace mezzo
