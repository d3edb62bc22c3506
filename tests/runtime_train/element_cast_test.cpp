#include "runtime/train/element_cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "compiler/support/half.h"

namespace mezzo::runtime {
namespace {

template <typename To, typename From>
std::vector<To> cast(DType from, DType to, const std::vector<From>& values) {
  // At an odd address, as data inside an archive may lie.
  std::vector<std::byte> source(values.size() * sizeof(From) + 1);
  std::memcpy(source.data() + 1, values.data(), values.size() * sizeof(From));
  std::vector<To> result(values.size());
  element_cast(from, to)(source.data() + 1, reinterpret_cast<std::byte*>(result.data()),
                         static_cast<std::int64_t>(values.size()));
  return result;
}

template <typename From>
std::optional<FaultyElement> check(DType from, DType to, const std::vector<From>& values) {
  return check_elements(from, to, reinterpret_cast<const std::byte*>(values.data()),
                        static_cast<std::int64_t>(values.size()));
}

TEST(ElementCast, FloatingTypesRound) {
  EXPECT_EQ(cast<float>(DType::kFloat64, DType::kFloat32, std::vector<double>{0.1, -2.5}),
            (std::vector<float>{0.1F, -2.5F}));
  EXPECT_EQ(
      cast<float>(DType::kFloat16, DType::kFloat32, std::vector<std::uint16_t>{0x3c00, 0x0001}),
      (std::vector<float>{1.0F, 0x1p-24F}));
  EXPECT_EQ(cast<std::uint16_t>(DType::kFloat32, DType::kBFloat16, std::vector<float>{1.0F, 0.1F}),
            (std::vector<std::uint16_t>{0x3f80, float_to_bf16(0.1F)}));
  EXPECT_EQ(cast<double>(DType::kFloat32, DType::kFloat64, std::vector<float>{0.1F}),
            (std::vector<double>{static_cast<double>(0.1F)}));
}

TEST(ElementCast, IntegersAndBools) {
  EXPECT_EQ(cast<std::int64_t>(DType::kInt32, DType::kInt64, std::vector<std::int32_t>{-5, 7}),
            (std::vector<std::int64_t>{-5, 7}));
  EXPECT_EQ(cast<std::int32_t>(DType::kInt64, DType::kInt32, std::vector<std::int64_t>{-5, 7}),
            (std::vector<std::int32_t>{-5, 7}));
  EXPECT_EQ(cast<float>(DType::kUInt8, DType::kFloat32, std::vector<std::uint8_t>{0, 255}),
            (std::vector<float>{0, 255}));
  EXPECT_EQ(cast<std::int64_t>(DType::kBool, DType::kInt64, std::vector<std::uint8_t>{0, 1, 2}),
            (std::vector<std::int64_t>{0, 1, 1}));
  EXPECT_EQ(cast<std::uint8_t>(DType::kInt64, DType::kBool, std::vector<std::int64_t>{0, 1}),
            (std::vector<std::uint8_t>{0, 1}));
  EXPECT_EQ(cast<std::int16_t>(DType::kInt16, DType::kInt16, std::vector<std::int16_t>{-3}),
            (std::vector<std::int16_t>{-3}));
}

TEST(ElementCast, RefusedPairs) {
  EXPECT_EQ(element_cast(DType::kFloat32, DType::kInt64), nullptr);
  EXPECT_EQ(element_cast(DType::kFloat16, DType::kBool), nullptr);
  EXPECT_EQ(element_cast(DType::kString, DType::kInt64), nullptr);
  EXPECT_EQ(element_cast(DType::kFloat32, DType::kFloat8E5M2), nullptr);
}

TEST(ElementCast, FindsTheFirstElementThatIsNoNumber) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(check(DType::kFloat32, DType::kFloat32, std::vector<float>{0, -1e38F, 1e-45F}));
  const auto found = check(DType::kFloat32, DType::kFloat32, std::vector<float>{0, 1, nan, inf});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->position, 2);
  EXPECT_EQ(found->fault, ElementFault::kNotANumber);
  EXPECT_EQ(check(DType::kFloat32, DType::kFloat32, std::vector<float>{-inf})->fault,
            ElementFault::kInfinite);
  EXPECT_EQ(check(DType::kFloat16, DType::kFloat32, std::vector<std::uint16_t>{0x7e00})->fault,
            ElementFault::kNotANumber);
  EXPECT_EQ(check(DType::kBFloat16, DType::kFloat32, std::vector<std::uint16_t>{0xff80})->fault,
            ElementFault::kInfinite);
}

TEST(ElementCast, FindsWhatDoesNotFit) {
  const auto out_of_range = [](DType from, DType to, const auto& values) {
    const auto found = check(from, to, values);
    return found && found->fault == ElementFault::kOutOfRange;
  };
  EXPECT_TRUE(out_of_range(DType::kFloat64, DType::kFloat32, std::vector<double>{1e39}));
  EXPECT_TRUE(out_of_range(DType::kFloat32, DType::kFloat16, std::vector<float>{70000}));
  EXPECT_FALSE(check(DType::kFloat32, DType::kFloat16, std::vector<float>{65504}));
  EXPECT_FALSE(
      check(DType::kInt32, DType::kFloat32, std::vector<std::int32_t>{1 << 24, -(1 << 24)}));
  EXPECT_TRUE(
      out_of_range(DType::kInt32, DType::kFloat32, std::vector<std::int32_t>{(1 << 24) + 1}));
  EXPECT_TRUE(out_of_range(DType::kUInt64, DType::kFloat32, std::vector<std::uint64_t>{~0ULL}));
  EXPECT_FALSE(check(DType::kUInt8, DType::kBFloat16, std::vector<std::uint8_t>{255}));
  EXPECT_TRUE(out_of_range(DType::kInt64, DType::kInt32, std::vector<std::int64_t>{1LL << 31}));
  EXPECT_TRUE(out_of_range(DType::kInt8, DType::kUInt8, std::vector<std::int8_t>{-1}));
  EXPECT_TRUE(out_of_range(DType::kUInt64, DType::kInt64, std::vector<std::uint64_t>{1ULL << 63}));
  EXPECT_TRUE(out_of_range(DType::kInt32, DType::kBool, std::vector<std::int32_t>{2}));
  EXPECT_FALSE(check(DType::kInt64, DType::kFloat64, std::vector<std::int64_t>{1LL << 53}));
  EXPECT_TRUE(
      out_of_range(DType::kInt64, DType::kFloat64, std::vector<std::int64_t>{(1LL << 53) + 1}));
}

}  // namespace
}  // namespace mezzo::runtime
