#include "kernels/truncated.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace mezzo::kernels {
namespace {

TEST(Truncated, TowardsZero) {
  EXPECT_EQ(truncated<std::int64_t>(2.9), 2);
  EXPECT_EQ(truncated<std::int64_t>(-2.9), -2);
  EXPECT_EQ(truncated<std::uint8_t>(-2.9), 254);
}

TEST(Truncated, OutOfRange) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(truncated<std::int64_t>(kInfinity), 9223372036854774784);  // 2^63 - 2^10
  EXPECT_EQ(truncated<std::int64_t>(-1e30), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(truncated<std::uint64_t>(1e19), 10000000000000000000U);
  EXPECT_EQ(truncated<std::uint64_t>(kInfinity), 18446744073709549568U);  // 2^64 - 2^11
  EXPECT_EQ(truncated<std::int32_t>(std::numeric_limits<double>::quiet_NaN()), 0);
  EXPECT_EQ(truncated<std::int32_t>(4294967301.0), 5);
}

}  // namespace
}  // namespace mezzo::kernels
