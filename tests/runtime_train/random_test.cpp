#include "runtime/train/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace mezzo::runtime {
namespace {

// The first numbers of the published reference implementation for seed 1234567.
TEST(SplitMix64, IsThePublishedGenerator) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317ULL);
  EXPECT_EQ(random.next(), 3203168211198807973ULL);
  EXPECT_EQ(random.next(), 9817491932198370423ULL);
}

TEST(SplitMix64, BelowIsUniform) {
  SplitMix64 random(7);
  std::vector<int> count(6);
  for (int i = 0; i < 60'000; ++i) ++count[random.below(6)];
  for (const int times : count) EXPECT_NEAR(times, 10'000, 500);  // five standard deviations
  EXPECT_EQ(random.below(1), 0U);
}

TEST(Shuffle, IsAPermutationOfItsOwnForEachSeedAndEpoch) {
  const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
    std::vector<std::uint32_t> indices(1000);
    shuffle_indices(seed, epoch, indices);
    return indices;
  };
  const auto first = order(1, 0);
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(sorted[i], i);
  EXPECT_EQ(order(1, 0), first);
  EXPECT_NE(order(1, 1), first);
  EXPECT_NE(order(2, 0), first);
  EXPECT_NE(order(0, 1), first);  // seed and epoch are not exchangeable
}

// Written down so that a change of the generator, which would break resuming, is noticed.
TEST(Shuffle, KeepsItsOrderForever) {
  std::vector<std::uint32_t> indices(8);
  shuffle_indices(42, 3, indices);
  EXPECT_EQ(indices, (std::vector<std::uint32_t>{0, 5, 6, 2, 7, 4, 3, 1}));
}

TEST(Shuffle, EveryOrderOfThreeComesEquallyOften) {
  std::vector<int> count(27);
  std::vector<std::uint32_t> indices(3);
  for (std::uint64_t epoch = 0; epoch < 60'000; ++epoch) {
    shuffle_indices(5, epoch, indices);
    ++count[indices[0] * 9 + indices[1] * 3 + indices[2]];
  }
  const auto used = std::count_if(count.begin(), count.end(), [](int times) { return times > 0; });
  EXPECT_EQ(used, 6);
  for (const int times : count) {
    if (times > 0) {
      EXPECT_NEAR(times, 10'000, 500);
    }
  }
}

}  // namespace
}  // namespace mezzo::runtime
