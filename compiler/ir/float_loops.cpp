// Each loop is written once, without branches, and compiled for three instruction sets; the
// compiler vectorises it (see CMakeLists.txt for the flags). Comparing and moving bits as integers
// keeps the result free of the processor's handling of NaN and subnormals.
#include "compiler/ir/float_loops.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mezzo {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;

// 0xffffffff if `condition`, else 0.
[[gnu::always_inline]] inline std::uint32_t mask(bool condition) {
  return condition ? 0xffffffffU : 0U;
}
[[gnu::always_inline]] inline std::uint32_t select(bool condition, std::uint32_t yes,
                                                   std::uint32_t no) {
  const std::uint32_t chosen = mask(condition);
  return (yes & chosen) | (no & ~chosen);
}

struct ToF16 {
  static constexpr std::uint32_t kMax = 0x477fe000;  // 65504
  static constexpr std::uint32_t kRoundsToInfinity = 0x477ff000;

  [[gnu::always_inline]] static std::uint32_t round(std::uint32_t bits) {
    const std::uint32_t magnitude = bits & kMagnitude;
    // Subnormal in float16: adding 0.5 aligns the bits that stay to the end; the adder rounds.
    const float aligned = std::bit_cast<float>(std::min(magnitude, 0x38800000U)) + 0.5F;
    const std::uint32_t small = std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U;
    const std::uint32_t normal =
        (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
    std::uint32_t result = select(magnitude < 0x38800000U, small, normal);
    result = select(magnitude >= kRoundsToInfinity, 0x7c00U, result);
    result = select(magnitude > kInfinity, 0x7e00U, result);
    return result | ((bits >> 16) & 0x8000U);
  }
};

struct ToBF16 {
  static constexpr std::uint32_t kMax = 0x7f7f0000;

  [[gnu::always_inline]] static std::uint32_t round(std::uint32_t bits) {
    const std::uint32_t nearest = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    return select((bits & kMagnitude) > kInfinity, (bits >> 16) | 0x40U, nearest);
  }
};

// Magnitudes beyond `max`, infinity included, become `max`; NaN stays.
[[gnu::always_inline]] inline std::uint32_t clamp(std::uint32_t bits, std::uint32_t max) {
  const std::uint32_t magnitude = bits & kMagnitude;
  return select((magnitude > max) & (magnitude <= kInfinity), max | (bits & ~kMagnitude), bits);
}

template <typename To, Overflow overflow>
[[gnu::always_inline]] inline void narrow(const std::byte* __restrict source,
                                          std::byte* __restrict target, std::size_t elems) {
  for (std::size_t i = 0; i < elems; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, source + i * sizeof bits, sizeof bits);  // files align nothing
    if constexpr (overflow == Overflow::kSaturate) bits = clamp(bits, To::kMax);
    const auto rounded = static_cast<std::uint16_t>(To::round(bits));
    std::memcpy(target + i * sizeof rounded, &rounded, sizeof rounded);
  }
}

using Bits = FloatExtremesFinder::Bits;

// Eight elements at a time; the compiler does not find this form by itself.
using Lanes [[gnu::vector_size(32)]] = std::uint32_t;
using SignedLanes [[gnu::vector_size(32)]] = std::int32_t;
constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(std::uint32_t);

[[gnu::always_inline]] inline std::int32_t flipped(std::int32_t bits) {
  return bits ^ ((bits >> 31) & static_cast<std::int32_t>(kMagnitude));
}

struct ExtremeLanes {
  SignedLanes lowest = SignedLanes{} + INT32_MAX, highest = SignedLanes{} + INT32_MIN;
  Lanes smallest_less_one = ~Lanes{};
  Lanes infinite = {}, nan = {};

  [[gnu::always_inline]] void add(const Lanes& bits) {
    const Lanes magnitude = bits & kMagnitude;
    const auto key =
        reinterpret_cast<SignedLanes>(bits) ^
        ((reinterpret_cast<SignedLanes>(bits) >> 31) & static_cast<std::int32_t>(kMagnitude));
    const SignedLanes finite = magnitude < kInfinity;  // all ones where true
    const SignedLanes low = finite ? key : SignedLanes{} + INT32_MAX;
    const SignedLanes high = finite ? key : SignedLanes{} + INT32_MIN;
    const Lanes less_one = (finite ? magnitude : Lanes{}) - 1;  // zero becomes the largest number
    lowest = lowest < low ? lowest : low;
    highest = highest > high ? highest : high;
    smallest_less_one = smallest_less_one < less_one ? smallest_less_one : less_one;
    infinite |= magnitude == kInfinity ? magnitude : Lanes{};
    nan |= magnitude > kInfinity ? magnitude : Lanes{};
  }
};

[[gnu::always_inline]] inline void extremes(const std::byte* source, std::size_t elems,
                                            Bits& seen) {
  ExtremeLanes lanes;
  Lanes bits;
  std::size_t at = 0;
  for (; at + kLanes <= elems; at += kLanes) {
    std::memcpy(&bits, source + at * sizeof(std::uint32_t), sizeof bits);
    lanes.add(bits);
  }
  for (; at < elems; ++at) {
    std::uint32_t one = 0;
    std::memcpy(&one, source + at * sizeof one, sizeof one);
    lanes.add(Lanes{} + one);
  }
  for (std::size_t i = 0; i < kLanes; ++i) {
    seen.lowest = std::min(seen.lowest, lanes.lowest[i]);
    seen.highest = std::max(seen.highest, lanes.highest[i]);
    seen.smallest_less_one = std::min(seen.smallest_less_one, lanes.smallest_less_one[i]);
    seen.infinite |= lanes.infinite[i] != 0;
    seen.nan |= lanes.nan[i] != 0;
  }
}

// Every loop as a function, for the instruction set that ATTRIBUTES ask for.
struct Loops {
  using Narrow = void (*)(const std::byte*, std::byte*, std::size_t);
  Narrow f16, f16_saturating, bf16, bf16_saturating;
  void (*extremes)(const std::byte*, std::size_t, Bits&);
};

template <typename To, Overflow overflow>
void narrow_plain(const std::byte* source, std::byte* target, std::size_t elems) {
  narrow<To, overflow>(source, target, elems);
}
void extremes_plain(const std::byte* source, std::size_t elems, Bits& seen) {
  extremes(source, elems, seen);
}
constexpr Loops kPlain = {narrow_plain<ToF16, Overflow::kInfinity>,
                          narrow_plain<ToF16, Overflow::kSaturate>,
                          narrow_plain<ToBF16, Overflow::kInfinity>,
                          narrow_plain<ToBF16, Overflow::kSaturate>, extremes_plain};

#if defined(__x86_64__)
template <typename To, Overflow overflow>
[[gnu::target("avx2")]] void narrow_avx2(const std::byte* source, std::byte* target,
                                         std::size_t elems) {
  narrow<To, overflow>(source, target, elems);
}
[[gnu::target("avx2")]] void extremes_avx2(const std::byte* source, std::size_t elems, Bits& seen) {
  extremes(source, elems, seen);
}
constexpr Loops kAvx2 = {narrow_avx2<ToF16, Overflow::kInfinity>,
                         narrow_avx2<ToF16, Overflow::kSaturate>,
                         narrow_avx2<ToBF16, Overflow::kInfinity>,
                         narrow_avx2<ToBF16, Overflow::kSaturate>, extremes_avx2};
#endif

const Loops& loops() {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return kAvx2;
#endif
  return kPlain;
}

}  // namespace

void narrow_to_f16(const std::byte* source, std::byte* target, std::size_t elems,
                   Overflow overflow) {
  const Loops& loop = loops();
  (overflow == Overflow::kSaturate ? loop.f16_saturating : loop.f16)(source, target, elems);
}

void narrow_to_bf16(const std::byte* source, std::byte* target, std::size_t elems,
                    Overflow overflow) {
  const Loops& loop = loops();
  (overflow == Overflow::kSaturate ? loop.bf16_saturating : loop.bf16)(source, target, elems);
}

void FloatExtremesFinder::add(const std::byte* source, std::size_t elems) {
  loops().extremes(source, elems, bits_);
}

FloatExtremes FloatExtremesFinder::result() const {
  FloatExtremes found;
  found.infinite = bits_.infinite;
  found.nan = bits_.nan;
  found.any_finite = bits_.lowest <= bits_.highest;
  if (!found.any_finite) return found;
  found.lowest = std::bit_cast<float>(flipped(bits_.lowest));
  found.highest = std::bit_cast<float>(flipped(bits_.highest));
  found.smallest_nonzero = std::bit_cast<float>(bits_.smallest_less_one + 1);
  return found;
}

}  // namespace mezzo
