// kernels/cuda/index.h: division by fixed numbers and the walk through strided views, with sizes
// that no test could allocate.
#include "kernels/cuda/index.h"

#include <gtest/gtest.h>

#include <random>

namespace mezzo::kernels::cuda {
namespace {

std::int64_t any_number(std::mt19937_64& engine, int most_bits) {
  const auto bits = static_cast<int>(engine() % static_cast<unsigned>(most_bits)) + 1;
  return static_cast<std::int64_t>(engine() >> (64 - bits));
}

TEST(Index, DividesByAnyNumber) {
  std::mt19937_64 engine(1);
  for (int round = 0; round < 200000; ++round) {
    const std::int64_t divisor = std::max<std::int64_t>(any_number(engine, 46), 1);
    const std::int64_t number = any_number(engine, 47);
    std::int64_t rest = -1;
    ASSERT_EQ(Divisor(divisor).divide(number, rest), number / divisor)
        << number << " / " << divisor;
    ASSERT_EQ(rest, number % divisor);
  }
}

TEST(Index, DividesAtTheEndsOf32Bits) {
  constexpr std::int64_t kEdge = std::int64_t{1} << 31;
  for (const std::int64_t divisor :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{641}, kEdge - 1, kEdge,
        kEdge + 1, 2 * kEdge - 1}) {
    for (const std::int64_t number :
         {std::int64_t{0}, divisor - 1, divisor, divisor + 1, 2 * divisor - 1, kEdge - 2, kEdge - 1,
          kEdge, kEdge + 1, 2 * kEdge, 4 * kEdge - 1}) {
      ASSERT_EQ(Divisor(divisor).quotient(number), number / divisor) << number << " / " << divisor;
    }
  }
  EXPECT_EQ(Divisor(0).quotient(7), 7);
}

// The offsets by the definition.
void expect_offsets(const Dims& sizes, const Dims& a, const Dims& b, const StridedIndex<2>& index,
                    std::int64_t number) {
  std::int64_t at[2];
  index.offsets(number, at);
  std::int64_t left = number;
  std::int64_t expected[2] = {0, 0};
  for (std::size_t d = sizes.size(); d > 0; --d) {
    expected[0] += left % sizes[d - 1] * a[d - 1];
    expected[1] += left % sizes[d - 1] * b[d - 1];
    left /= sizes[d - 1];
  }
  ASSERT_EQ(at[0], expected[0]) << "element " << number;
  ASSERT_EQ(at[1], expected[1]) << "element " << number;
}

TEST(Index, WalksThroughViews) {
  std::mt19937_64 engine(2);
  for (int round = 0; round < 2000; ++round) {
    Dims sizes, a, b;
    const auto rank = engine() % (kMaxDims + 1);
    std::int64_t dense = 1;
    for (std::size_t d = 0; d < rank; ++d) {
      sizes.push_back(1 + static_cast<std::int64_t>(engine() % 4));
    }
    a.resize(rank);
    b.resize(rank);
    for (std::size_t d = rank; d > 0; --d) {
      a[d - 1] = dense;  // dims of `a` join wherever those of `b` do
      b[d - 1] = engine() % 3 == 0 ? static_cast<std::int64_t>(engine() % 9) - 4 : dense * 2;
      dense *= sizes[d - 1];
    }
    const auto index = make_index<2>(sizes, {a, b});
    ASSERT_EQ(index.elems, dense);
    ASSERT_EQ(index.is_narrow, 1);
    for (int i = 0; i < 20; ++i) {
      const auto number = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(dense));
      ASSERT_NO_FATAL_FAILURE(expect_offsets(sizes, a, b, index, number));
    }
  }
}

// 2^46 elements, the most a tensor may have; strides of both signs.
TEST(Index, WalksThroughWhat32BitsDoNotHold) {
  std::mt19937_64 engine(3);
  const Dims sizes = {1 << 10, 3, 1 << 20, 5461};
  const Dims a = {std::int64_t{3} * 5461 << 20, std::int64_t{5461} << 20, 5461, 1};
  const Dims b = {1, std::int64_t{1} << 10, -(std::int64_t{3} << 10), std::int64_t{3} << 30};
  const auto index = make_index<2>(sizes, {a, b});
  EXPECT_EQ(index.is_narrow, 0);
  for (int i = 0; i < 100000; ++i) {
    ASSERT_NO_FATAL_FAILURE(expect_offsets(
        sizes, a, b, index,
        static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(index.elems))));
  }
  // Few elements, far apart.
  const Dims far = {std::int64_t{1} << 40, std::int64_t{1} << 20};
  const auto sparse = make_index<2>({7, 9}, {far, {9, 1}});
  EXPECT_EQ(sparse.is_narrow, 0);
  for (std::int64_t i = 0; i < 63; ++i) {
    ASSERT_NO_FATAL_FAILURE(expect_offsets({7, 9}, far, {9, 1}, sparse, i));
  }
}

TEST(Index, JoinsDimsThatLieTogether) {
  EXPECT_EQ(make_index<1>({2, 1, 3, 4}, {Dims{12, 99, 4, 1}}).rank, 1);
  EXPECT_EQ(make_index<1>({2, 3, 4}, {Dims{4, 8, 1}}).rank, 3);
  EXPECT_EQ((make_index<2>({2, 3, 4}, {Dims{12, 4, 1}, Dims{0, 0, 0}}).rank), 1);
  EXPECT_EQ((make_index<2>({2, 3, 4}, {Dims{12, 4, 1}, Dims{0, 4, 1}}).rank), 2);
  EXPECT_EQ(make_index<1>({1, 1}, {Dims{7, 7}}).rank, 0);
  EXPECT_EQ(make_index<1>({}, {Dims{}}).elems, 1);
  EXPECT_EQ(make_index<1>({5, 0}, {Dims{0, 1}}).elems, 0);
}

TEST(Index, FindsStridesOfLayouts) {
  const TensorDesc rows{DType::kFloat32, {2, 3, 4, 5}, Layout::kRowMajor};
  const TensorDesc last{DType::kFloat32, {2, 3, 4, 5}, Layout::kChannelsLast};
  EXPECT_EQ(strides_within(rows, rows.dims), (Dims{60, 20, 5, 1}));
  EXPECT_EQ(strides_within(last, last.dims), (Dims{60, 1, 15, 3}));
  const TensorDesc bias{DType::kFloat32, {3, 1, 1}, Layout::kRowMajor};
  EXPECT_EQ(strides_within(bias, rows.dims), (Dims{0, 1, 0, 0}));
  EXPECT_EQ(ordered(last.dims, memory_order(4, last.layout)), (Dims{2, 4, 5, 3}));
}

}  // namespace
}  // namespace mezzo::kernels::cuda
