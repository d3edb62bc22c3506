#include "passes/numerics/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/numerics/numeric_case.h"

namespace mezzo::test {
namespace {

using numerics::Difference;
using numerics::difference;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Difference, IsAShareOfTheLargestElement) {
  const Difference found = difference(floats({3}, {1, -10, 2}), floats({3}, {1.5F, -10, 2}));
  EXPECT_DOUBLE_EQ(found.error, 0.05);
  EXPECT_EQ(found.index, 0);
  EXPECT_EQ(found.a_there, 1);
  EXPECT_EQ(found.b_there, 1.5);
  EXPECT_TRUE(found.within(0.05));
  EXPECT_FALSE(found.within(0.04));
}

TEST(Difference, EqualTensorsHaveNone) {
  const Difference found = difference(floats({2}, {kInf, kNan}), floats({2}, {kInf, kNan}));
  EXPECT_EQ(found.error, 0);
  EXPECT_EQ(found.index, -1);
  EXPECT_EQ(found.nonfinite_a, 2U);
}

TEST(Difference, NewInfinitiesAndNanAreInfinite) {
  EXPECT_TRUE(std::isinf(difference(floats({2}, {1, 2}), floats({2}, {1, kInf})).error));
  EXPECT_TRUE(std::isinf(difference(floats({2}, {1, 2}), floats({2}, {kNan, 2})).error));
  EXPECT_TRUE(std::isinf(difference(floats({1}, {kInf}), floats({1}, {3})).error));
  EXPECT_TRUE(std::isinf(difference(floats({1}, {kInf}), floats({1}, {-kInf})).error));
}

TEST(Difference, MasksThatWereSaturatedAreEqual) {
  const RuntimeValue fp32 = floats({3}, {-3.4028235e38F, 2, 1});
  const Difference same = difference(fp32, tensor_as(DType::kFloat16, {3}, {-65504, 2, 1}));
  EXPECT_EQ(same.error, 0);
  EXPECT_EQ(same.largest_a, 2) << "the mask does not make other errors small";
  const Difference off = difference(fp32, tensor_as(DType::kFloat16, {3}, {-65504, 2, 1.5}));
  EXPECT_DOUBLE_EQ(off.error, 0.25);
  EXPECT_TRUE(
      std::isinf(difference(fp32, tensor_as(DType::kFloat16, {3}, {-HUGE_VAL, 2, 1})).error));
}

TEST(Difference, OfOtherTypesAndSequences) {
  EXPECT_DOUBLE_EQ(difference(integers({2}, {4, 1}), integers({2}, {4, 3})).error, 0.5);
  EXPECT_FALSE(difference(floats({2}, {1, 2}), floats({1}, {1})).comparable);
  EXPECT_FALSE(difference(floats({2}, {1, 2}), floats({1}, {1})).within(1e9));
  const RuntimeValue one = floats({1}, {1}), two = floats({1}, {2});
  EXPECT_DOUBLE_EQ(
      difference(RuntimeValue::sequence({one, one}), RuntimeValue::sequence({one, two})).error, 1);
  EXPECT_FALSE(difference(RuntimeValue::sequence({one}), RuntimeValue::sequence({})).comparable);
}

}  // namespace
}  // namespace mezzo::test
