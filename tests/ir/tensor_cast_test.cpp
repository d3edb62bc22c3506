// Casts of constants against compiler/support/half.h, for every 16-bit pattern, and against
// rounding by search in double precision.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "compiler/ir/cast_elems.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/half.h"

namespace mezzo {
namespace {

constexpr DType kFloatingTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                                    DType::kFloat64};

template <typename T>
TensorRef from_array(DType dtype, const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return Tensor::from_bytes(dtype, {static_cast<std::int64_t>(values.size())}, std::move(bytes));
}

template <typename T>
std::vector<T> to_array(const Tensor& tensor) {
  const std::vector<std::byte> bytes = tensor.copy_bytes();
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  return patterns;
}

class LowType : public ::testing::TestWithParam<DType> {
 protected:
  float widened(std::uint16_t bits) const {
    return GetParam() == DType::kFloat16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
  std::uint16_t rounded(float value) const {
    return GetParam() == DType::kFloat16 ? float_to_f16(value) : float_to_bf16(value);
  }
};

TEST_P(LowType, EveryPatternWidensAndComesBack) {
  const std::vector<std::uint16_t> patterns = all_patterns();
  const TensorRef low = from_array(GetParam(), patterns);
  for (const DType wide : {DType::kFloat32, DType::kFloat64}) {
    const TensorRef widest = Tensor::cast_of(low, wide, false);
    const std::vector<double> values = widest->to_doubles();
    const auto back = to_array<std::uint16_t>(*Tensor::cast_of(widest, GetParam(), false));
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const float expected = widened(patterns[i]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(values[i]) && std::isnan(widened(back[i]))) << "pattern " << i;
      } else {
        ASSERT_EQ(values[i], expected) << "pattern " << i;
        ASSERT_EQ(std::signbit(values[i]), std::signbit(expected)) << "pattern " << i;
        ASSERT_EQ(back[i], patterns[i]);
      }
    }
  }
}

// Around every value of the low type: itself, the middle to the next one, and the neighbours of
// these in the wide type; in float by half.h, in double by comparing distances.
TEST_P(LowType, RoundsOnceToNearestEven) {
  std::vector<double> doubles;
  std::vector<double> expected;
  for (std::uint32_t i = 0; i < 0x7f80U; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double low = widened(bits);
    const double high = widened(static_cast<std::uint16_t>(bits + 1));
    if (std::isnan(low) || !std::isfinite(high) || !std::isfinite(low)) break;
    const double middle = low + (high - low) / 2;
    const double infinity = std::numeric_limits<double>::infinity();
    doubles.insert(doubles.end(), {low, std::nextafter(middle, 0), middle,
                                   std::nextafter(middle, infinity), -middle});
    const double even = (bits & 1U) == 0 ? low : high;
    expected.insert(expected.end(), {low, low, even, high, -even});
  }
  ASSERT_GT(doubles.size(), 5U * 31000U);
  const TensorRef wide = from_array(DType::kFloat64, doubles);
  const std::vector<double> cast = Tensor::cast_of(wide, GetParam(), false)->to_doubles();
  for (std::size_t i = 0; i < doubles.size(); ++i) {
    ASSERT_EQ(cast[i], expected[i]) << "of " << std::hexfloat << doubles[i];
    ASSERT_EQ(round_to(GetParam(), doubles[i]), expected[i]);
  }
}

TEST_P(LowType, FloatsRoundAsHalfHeaderDoes) {
  std::mt19937 random(7);
  std::vector<float> floats(200000);
  for (float& value : floats) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  const TensorRef source = from_array(DType::kFloat32, floats);
  const auto cast = to_array<std::uint16_t>(*Tensor::cast_of(source, GetParam(), false));
  for (std::size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(cast[i], rounded(floats[i])) << std::hexfloat << floats[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LowType, ::testing::Values(DType::kFloat16, DType::kBFloat16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

// For each pair of types, values at and beyond the limits.
TEST(TensorCast, OverflowAndSaturation) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType from : kFloatingTypes) {
    for (const DType to : kFloatingTypes) {
      if (from == to) continue;
      const double from_max = float_facts(from).max;
      const double to_max = float_facts(to).max;
      const double nearest_max = round_to(to, from_max);  // 65504 is 65536 in bfloat16
      const std::vector<double> values = {infinity, -infinity, from_max,    -from_max,
                                          1.5,      -0.0,      std::nan("")};
      const TensorRef source = Tensor::cast_of(from_array(DType::kFloat64, values), from, false);
      const auto plain = Tensor::cast_of(source, to, false)->to_doubles();
      const auto saturated = Tensor::cast_of(source, to, true)->to_doubles();
      SCOPED_TRACE(std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)));
      EXPECT_EQ(plain[0], infinity);
      EXPECT_EQ(plain[1], -infinity);
      EXPECT_EQ(plain[2], from_max > to_max ? infinity : nearest_max);
      EXPECT_EQ(plain[3], from_max > to_max ? -infinity : -nearest_max);
      EXPECT_EQ(saturated[0], to_max);
      EXPECT_EQ(saturated[1], -to_max);
      EXPECT_EQ(saturated[2], from_max > to_max ? to_max : nearest_max);
      EXPECT_EQ(saturated[3], from_max > to_max ? -to_max : -nearest_max);
      for (const auto& cast : {plain, saturated}) {
        EXPECT_EQ(cast[4], 1.5);
        EXPECT_TRUE(cast[5] == 0 && std::signbit(cast[5]));
        EXPECT_TRUE(std::isnan(cast[6]));
      }
    }
  }
}

TEST(TensorCast, SameTypeIsTheTensorItself) {
  const TensorRef source = Tensor::scalar(DType::kFloat32, 1);
  EXPECT_EQ(Tensor::cast_of(source, DType::kFloat32, true), source);
}

// 1 + 2^-11 + 2^-40 lies just above the middle between two float16 values; rounding to float first
// loses the last bit and then ties to even, downwards.
TEST(TensorCast, DoublesAreNotRoundedTwice) {
  EXPECT_EQ(round_to(DType::kFloat16, 1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);
  EXPECT_EQ(round_to(DType::kBFloat16, 1 + 0x1p-8 - 0x1p-40), 1.0);
  EXPECT_EQ(round_to(DType::kFloat16, 0x1p-25 + 0x1p-70), 0x1p-24);
  EXPECT_EQ(round_to(DType::kFloat16, 65520 - 0x1p-30), 65504);
}

TEST(TensorCast, WorksOnUnalignedBytes) {
  std::vector<std::byte> source(1 + 3 * sizeof(float));
  const float values[] = {1, 2, 3};
  std::memcpy(source.data() + 1, values, sizeof(values));
  std::vector<std::byte> target(1 + 3 * sizeof(std::uint16_t));
  cast_elems(DType::kFloat32, DType::kFloat16, Overflow::kInfinity, source.data() + 1,
             target.data() + 1, 3);
  std::uint16_t result[3];
  std::memcpy(result, target.data() + 1, sizeof(result));
  EXPECT_EQ(result[2], float_to_f16(3));
}

}  // namespace
}  // namespace mezzo
