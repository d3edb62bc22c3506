// The vectorised loops over weights against element by element arithmetic.
#include "compiler/ir/float_loops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "compiler/support/half.h"

namespace mezzo {
namespace {

constexpr std::size_t kMost = 70;  // several vectors and a rest of every length

// Bit patterns of every kind: each exponent, mantissas at and beside the middle between two values
// of a 16-bit type, both signs.
std::vector<float> telling_floats() {
  std::vector<std::uint32_t> mantissas = {0, 1, 0x7fffff, 0x400000, 0x200000};
  for (const std::uint32_t middle : {0x1000U, 0x3000U, 0x8000U, 0x18000U, 0x7ff000U, 0x7f8000U}) {
    mantissas.insert(mantissas.end(), {middle - 1, middle, middle + 1});
  }
  std::vector<float> floats;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const std::uint32_t mantissa : mantissas) {
      for (const std::uint32_t sign : {0U, 0x80000000U}) {
        floats.push_back(std::bit_cast<float>(sign | exponent << 23 | mantissa));
      }
    }
  }
  return floats;
}

std::uint16_t saturated(float value, float max, std::uint16_t (*round)(float)) {
  if (value > max) value = max;
  if (value < -max) value = -max;
  return round(value);
}

// From an odd address, as raw_data in a file may lie.
template <typename Narrow>
std::vector<std::uint16_t> narrow(const std::vector<float>& floats, const Narrow& loop,
                                  Overflow overflow) {
  std::vector<std::byte> source(floats.size() * 4 + 1), target(floats.size() * 2 + 1);
  std::memcpy(source.data() + 1, floats.data(), floats.size() * 4);
  loop(source.data() + 1, target.data() + 1, floats.size(), overflow);
  std::vector<std::uint16_t> result(floats.size());
  std::memcpy(result.data(), target.data() + 1, result.size() * 2);
  return result;
}

TEST(FloatLoops, NarrowingGivesTheBitsOfHalfHeader) {
  const std::vector<float> floats = telling_floats();
  const auto f16 = narrow(floats, narrow_to_f16, Overflow::kInfinity);
  const auto bf16 = narrow(floats, narrow_to_bf16, Overflow::kInfinity);
  const auto f16_in_range = narrow(floats, narrow_to_f16, Overflow::kSaturate);
  const auto bf16_in_range = narrow(floats, narrow_to_bf16, Overflow::kSaturate);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const float value = floats[i];
    ASSERT_EQ(f16[i], float_to_f16(value)) << std::hexfloat << value;
    ASSERT_EQ(bf16[i], float_to_bf16(value)) << std::hexfloat << value;
    ASSERT_EQ(f16_in_range[i], saturated(value, 65504.0F, float_to_f16)) << value;
    ASSERT_EQ(bf16_in_range[i], saturated(value, 0x1.fep127F, float_to_bf16)) << value;
  }
}

TEST(FloatLoops, NarrowingStopsAtTheEnd) {
  const std::vector<float> floats(kMost, 1.5F);
  for (std::size_t elems = 0; elems < kMost; ++elems) {
    std::vector<std::uint16_t> target(kMost, 0xffff);
    narrow_to_f16(reinterpret_cast<const std::byte*>(floats.data()),
                  reinterpret_cast<std::byte*>(target.data()), elems, Overflow::kInfinity);
    for (std::size_t i = 0; i < kMost; ++i) ASSERT_EQ(target[i], i < elems ? 0x3e00 : 0xffff);
  }
}

FloatExtremes extremes_of(const std::vector<float>& floats, std::size_t elems) {
  FloatExtremesFinder finder;
  finder.add(reinterpret_cast<const std::byte*>(floats.data()), elems);
  return finder.result();
}

TEST(FloatLoops, ExtremesOfEveryLength) {
  std::mt19937 random(11);
  std::vector<float> floats(kMost);
  for (float& value : floats) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  floats[3] = -std::numeric_limits<float>::infinity();
  floats[5] = std::numeric_limits<float>::quiet_NaN();
  floats[8] = -0.0F;
  for (std::size_t elems = 0; elems <= kMost; ++elems) {
    FloatExtremes expected;
    for (std::size_t i = 0; i < elems; ++i) {
      const float value = floats[i], magnitude = std::fabs(value);
      expected.infinite = expected.infinite || std::isinf(value);
      expected.nan = expected.nan || std::isnan(value);
      if (!std::isfinite(value)) continue;
      expected.lowest = expected.any_finite ? std::min(expected.lowest, value) : value;
      expected.highest = expected.any_finite ? std::max(expected.highest, value) : value;
      expected.any_finite = true;
      if (magnitude == 0) continue;
      if (expected.smallest_nonzero == 0 || magnitude < expected.smallest_nonzero)
        expected.smallest_nonzero = magnitude;
    }
    const FloatExtremes found = extremes_of(floats, elems);
    EXPECT_EQ(found.any_finite, expected.any_finite) << elems;
    EXPECT_EQ(found.lowest, expected.lowest) << elems;
    EXPECT_EQ(found.highest, expected.highest) << elems;
    EXPECT_EQ(found.smallest_nonzero, expected.smallest_nonzero) << elems;
    EXPECT_EQ(found.infinite, expected.infinite) << elems;
    EXPECT_EQ(found.nan, expected.nan) << elems;
  }
}

TEST(FloatLoops, ExtremesAddUpOverPieces) {
  const float infinity = std::numeric_limits<float>::infinity();
  FloatExtremesFinder finder;
  for (const float value : {-3.0F, 0.0F, 7.0F, 1e-42F, infinity}) {
    finder.add(reinterpret_cast<const std::byte*>(&value), 1);
  }
  const FloatExtremes found = finder.result();
  EXPECT_EQ(found.lowest, -3);
  EXPECT_EQ(found.highest, 7);
  EXPECT_EQ(found.smallest_nonzero, 1e-42F);
  EXPECT_TRUE(found.infinite);
  EXPECT_FALSE(found.nan);
}

TEST(FloatLoops, ExtremesOfZerosAndOfNothingFinite) {
  EXPECT_EQ(extremes_of({0, -0.0F}, 2).smallest_nonzero, 0);
  EXPECT_TRUE(extremes_of({0, -0.0F}, 2).any_finite);
  EXPECT_FALSE(extremes_of({std::numeric_limits<float>::infinity()}, 1).any_finite);
  EXPECT_EQ(extremes_of({-5, -2}, 2).highest, -2);
  EXPECT_EQ(extremes_of({5, 2}, 2).lowest, 2);
}

}  // namespace
}  // namespace mezzo
