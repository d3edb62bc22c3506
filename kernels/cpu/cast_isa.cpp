// Casts between every two types but the 16-bit floats, and the step to float32 from which those
// are rounded.
//
// Floats to integers are truncated toward zero and saturate, NaN gives 0; integers to integers keep
// the low bits; to truth values x != 0.
#include "kernels/cpu/typed_loops.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

template <class T>
constexpr T kGreatest = kIsSigned<T> ? static_cast<T>((Wrapping<T>{1} << (8 * sizeof(T) - 1)) - 1)
                                     : static_cast<T>(~Wrapping<T>{0});
template <class T>
constexpr T kLeast = kIsSigned<T> ? static_cast<T>(Wrapping<T>{1} << (8 * sizeof(T) - 1)) : T{0};

template <class To, class From>
struct Cast {
  static To apply(From value) {
    if constexpr (kIsReal<From> && !kIsReal<To>) {
      // The ends as floats: the lower one is exact, the upper one may be one above the greatest.
      constexpr auto kLow = static_cast<From>(kLeast<To>);
      constexpr auto kHigh = static_cast<From>(kGreatest<To>);
      if (!(value >= kLow)) return value != value ? To{0} : kLeast<To>;
      if (value >= kHigh) return kGreatest<To>;
      return static_cast<To>(value);
    } else {
      return static_cast<To>(value);
    }
  }
};
template <class From>
struct Cast<Truth, From> {
  static Truth apply(From value) { return {static_cast<std::uint8_t>(value != From{0})}; }
};
template <class To>
struct Cast<To, Truth> {
  static To apply(Truth value) { return static_cast<To>(value.bits != 0 ? 1 : 0); }
};
template <>
struct Cast<Truth, Truth> {
  static Truth apply(Truth value) { return {static_cast<std::uint8_t>(value.bits != 0)}; }
};

template <class From, class To>
void cast_run(const void* from, void* to, Int n) {
  const auto* in = static_cast<const From*>(from);
  auto* out = static_cast<To*>(to);
  for (Int i = 0; i < n; ++i) out[i] = Cast<To, From>::apply(in[i]);
}

template <class Give>
CastLoop for_all(DType dtype, Give give) {
  switch (dtype) {
    case DType::kFloat32: return give(Tag<float>());
    case DType::kFloat64: return give(Tag<double>());
    case DType::kBool: return give(Tag<Truth>());
    case DType::kInt8: return give(Tag<std::int8_t>());
    case DType::kInt16: return give(Tag<std::int16_t>());
    case DType::kInt32: return give(Tag<std::int32_t>());
    case DType::kInt64: return give(Tag<std::int64_t>());
    case DType::kUInt8: return give(Tag<std::uint8_t>());
    case DType::kUInt16: return give(Tag<std::uint16_t>());
    case DType::kUInt32: return give(Tag<std::uint32_t>());
    case DType::kUInt64: return give(Tag<std::uint64_t>());
    default: return nullptr;
  }
}

// The float nearest to value; if that is inexact and its last bit is clear, its neighbour on
// value's other side, whose last bit is set. Rounding that to 16 bits equals rounding value.
float odd_float(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  const auto bits = __builtin_bit_cast(std::uint32_t, nearest);
  const bool keep = back == value || value != value || (bits & 1U) != 0;
  const std::uint32_t step =
      (value > back) != (nearest < 0.0F || (nearest == 0.0F && value < 0.0)) ? 1U : 0xffffffffU;
  // Zero has no neighbour toward zero, and value lies beyond it then.
  const std::uint32_t other = nearest == 0.0F ? (bits | 1U) : bits + step;
  return keep ? nearest : __builtin_bit_cast(float, other);
}

// As double with a set last kept bit where digits are lost: 52 bits are kept of 64.
template <class T>
double odd_double(T value) {
  if constexpr (sizeof(T) < 8) {
    return static_cast<double>(value);
  } else {
    const bool negative = kIsSigned<T> && value < 0;
    std::uint64_t size =
        negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    if (size >> 52 != 0) {
      const std::uint64_t lost = size & 0xfff;
      size = (size ^ lost) | (lost != 0 ? 0x1000U : 0U);
    }
    const auto magnitude = static_cast<double>(size);
    return negative ? -magnitude : magnitude;
  }
}

template <class From>
void odd_run(const void* from, void* to, Int n) {
  const auto* in = static_cast<const From*>(from);
  auto* out = static_cast<float*>(to);
  for (Int i = 0; i < n; ++i) out[i] = odd_float(odd_double(in[i]));
}
template <>
void odd_run<double>(const void* from, void* to, Int n) {
  const auto* in = static_cast<const double*>(from);
  auto* out = static_cast<float*>(to);
  for (Int i = 0; i < n; ++i) out[i] = odd_float(in[i]);
}

}  // namespace

CastLoop cast(DType from, DType to) {
  return for_all(from, [to](auto in) {
    return for_all(to, [](auto out) -> CastLoop {
      return cast_run<typename decltype(in)::Type, typename decltype(out)::Type>;
    });
  });
}

CastLoop cast_to_odd(DType from) {
  switch (from) {
    case DType::kFloat64: return odd_run<double>;
    case DType::kInt32: return odd_run<std::int32_t>;
    case DType::kUInt32: return odd_run<std::uint32_t>;
    case DType::kInt64: return odd_run<std::int64_t>;
    case DType::kUInt64: return odd_run<std::uint64_t>;
    default: return cast(from, DType::kFloat32);  // exact
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
