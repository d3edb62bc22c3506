#include "passes/numerics/tensor_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/numerics/numeric_case.h"

namespace mezzo::test {
namespace {

using numerics::range_of;
using numerics::range_text;
using passes::TensorRange;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(TensorRange, OfFloats) {
  const TensorRange range = range_of(floats({5}, {-3, 0, 0.25F, 2, 1e-9F}).tensor);
  EXPECT_TRUE(range.any_finite);
  EXPECT_EQ(range.lowest, -3);
  EXPECT_EQ(range.highest, 2);
  EXPECT_EQ(range.largest(), 3);
  EXPECT_FLOAT_EQ(static_cast<float>(range.smallest_nonzero), 1e-9F);
  EXPECT_EQ(range.elems, 5U);
  EXPECT_EQ(range.infinities + range.nans, 0U);
  EXPECT_FALSE(range.whole);
}

TEST(TensorRange, CountsWhatIsNotFinite) {
  const TensorRange range = range_of(floats({5}, {kNan, -kInf, 4, kInf, kNan}).tensor);
  EXPECT_EQ(range.nans, 2U);
  EXPECT_EQ(range.infinities, 2U);
  EXPECT_EQ(range.lowest, 4);
  EXPECT_EQ(range.highest, 4);
  EXPECT_EQ(range_text(range), "all 4, 2 inf, 2 NaN");
  EXPECT_EQ(range_text(range_of(floats({1}, {kNan}).tensor)), "nothing finite, 1 NaN");
  EXPECT_EQ(range_text(range_of(floats({0}, {}).tensor)), "no elements");
}

TEST(TensorRange, MasksAside) {
  const TensorRange range = range_of(floats({4}, {-3.4e38F, -2, 5, -1e9F}).tensor);
  EXPECT_FLOAT_EQ(static_cast<float>(range.lowest), -3.4e38F);
  EXPECT_EQ(range.lowest_unmasked, -2);
}

TEST(TensorRange, OfEveryFloatingType) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    const TensorRange range = range_of(tensor_as(dtype, {3}, {-1.5, 0.25, kInf}).tensor);
    EXPECT_EQ(range.lowest, -1.5) << dtype_name(dtype);
    EXPECT_EQ(range.highest, 0.25) << dtype_name(dtype);
    EXPECT_EQ(range.smallest_nonzero, 0.25) << dtype_name(dtype);
    EXPECT_EQ(range.infinities, 1U) << dtype_name(dtype);
  }
}

TEST(TensorRange, IntegersThatTheLowTypeHasNot) {
  EXPECT_TRUE(range_of(floats({3}, {4097, 4098, 4099}).tensor).inexact);
  EXPECT_FALSE(range_of(floats({3}, {4096, 4100, 4104}).tensor).inexact);
  EXPECT_FALSE(range_of(floats({3}, {4097, 4097, 4097}).tensor).inexact) << "all are one number";
  EXPECT_FALSE(range_of(floats({3}, {4097, 4098.5F, 4099}).tensor).inexact) << "no integers";
  EXPECT_TRUE(range_of(floats({2}, {257, 256}).tensor, {DType::kBFloat16, -1e4}).inexact);
}

TEST(TensorRange, ManySamplesAreOneRange) {
  TensorRange all;
  all.merge(range_of(floats({2}, {1, 2}).tensor));
  all.merge(range_of(floats({2}, {kNan, kNan}).tensor));
  all.merge(range_of(floats({2}, {-7, 0.5F}).tensor));
  EXPECT_EQ(all.lowest, -7);
  EXPECT_EQ(all.highest, 2);
  EXPECT_EQ(all.smallest_nonzero, 0.5);
  EXPECT_EQ(all.nans, 2U);
  EXPECT_EQ(all.elems, 6U);
  EXPECT_FALSE(all.whole);
}

}  // namespace
}  // namespace mezzo::test
