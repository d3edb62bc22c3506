// The executor of blocks: barriers, warps, and that it notices what is wrong with a kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/facility_kernels.h"
#include "tests/support/sanitizers.h"

namespace cuda_on_cpu_test {
namespace {

using ::testing::HasSubstr;

// Device memory is memory of the heap; tests read it where it lies.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, count * sizeof(T)), cudaSuccess);
    data_ = static_cast<T*>(memory);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~DeviceArray() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() const { return data_; }
  std::vector<T> values() const { return {data_, data_ + count_}; }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

class Block : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { cuda_on_cpu::set_thread_order(static_cast<std::uint64_t>(GetParam())); }
  void TearDown() override {
    cuda_on_cpu::set_thread_order(0);
    EXPECT_EQ(cuda_on_cpu::take_fault(), "");
  }
};

TEST_P(Block, ThreadsAndBlocksHaveTheirIndices) {
  const dim3 grid(3, 2, 2), block(5, 3, 2);
  DeviceArray<std::uint64_t> y(12 * 30);
  ASSERT_EQ(launch_indices(y.data(), grid, block, nullptr), cudaSuccess);
  for (std::uint64_t i = 0; i < 12 * 30; ++i) {
    EXPECT_EQ(y.values()[i], (i / 30) << 32 | i % 30);
  }
}

TEST_P(Block, SumsByShufflesAndABarrier) {
  const int rows = 70, count = 517;
  std::vector<float> x(static_cast<std::size_t>(rows) * count);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  const DeviceArray<float> on_device(x);
  for (const int threads : {32, 96, 256, 1024}) {
    DeviceArray<float> y(rows);
    ASSERT_EQ(launch_row_sums(on_device.data(), y.data(), rows, count, threads, nullptr),
              cudaSuccess);
    for (int row = 0; row < rows; ++row) {
      const auto first = x.begin() + row * count;
      EXPECT_EQ(y.values()[static_cast<std::size_t>(row)],
                std::accumulate(first, first + count, 0.0F));
    }
  }
}

TEST_P(Block, ABarrierSeparatesWritesFromReads) {
  std::vector<int> x(300);
  std::iota(x.begin(), x.end(), 0);
  const DeviceArray<int> on_device(x);
  DeviceArray<int> y(x.size());
  ASSERT_EQ(launch_reverse(on_device.data(), y.data(), 300, true, nullptr), cudaSuccess);
  EXPECT_EQ(y.values(), std::vector<int>(x.rbegin(), x.rend()));
}

TEST_P(Block, AMissingBarrierShows) {
  std::vector<int> x(300);
  std::iota(x.begin(), x.end(), 0);
  const DeviceArray<int> on_device(x);
  DeviceArray<int> y(x.size());
  ASSERT_EQ(launch_reverse(on_device.data(), y.data(), 300, false, nullptr), cudaSuccess);
  EXPECT_NE(y.values(), std::vector<int>(x.rbegin(), x.rend()));
}

TEST_P(Block, DifferentBarriersAreAFault) {
  EXPECT_EQ(launch_two_barriers(64, nullptr), cudaErrorLaunchFailure);
  EXPECT_THAT(cuda_on_cpu::take_fault(),
              HasSubstr("two_barriers: threads of a block wait at different barriers"));
}

TEST_P(Block, ADeadlockIsAFaultThatSaysWhereThreadsWait) {
  EXPECT_EQ(launch_deadlock(40, nullptr), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure) << "the device stays lost";
  const std::string fault = cuda_on_cpu::take_fault();
  EXPECT_THAT(fault, HasSubstr("39 at the barrier facility_kernels.cu:"));
  EXPECT_THAT(fault, HasSubstr("1 at the warp operation facility_kernels.cu:"));
  // The executor is none the worse for it.
  DeviceArray<unsigned> y(std::vector<unsigned>{0});
  ASSERT_EQ(launch_count(y.data(), 4, 32, nullptr), cudaSuccess);
  EXPECT_EQ(y.values()[0], 128U);
}

TEST_P(Block, WarpOperations) {
  DeviceArray<std::uint32_t> y(32 * kWarpResults);
  ASSERT_EQ(launch_warp_operations(y.data(), nullptr), cudaSuccess);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::vector<std::uint32_t> all = y.values();
    const std::vector<std::uint32_t> mine(all.begin() + lane * kWarpResults,
                                          all.begin() + (lane + 1) * kWarpResults);
    const std::vector<std::uint32_t> expected = {50,
                                                 (lane / 8 * 8 + 3) * 10,
                                                 (lane ^ 1U) * 10,
                                                 (lane < 30 ? lane + 2 : lane) * 10,
                                                 (lane % 16 == 0 ? lane : lane - 1) * 10,
                                                 0x49249249U,
                                                 1,
                                                 0};
    EXPECT_EQ(mine, expected) << "lane " << lane;
  }
}

TEST_P(Block, PartsOfAWarpWorkByThemselves) {
  DeviceArray<int> y(32);
  ASSERT_EQ(launch_half_warps(y.data(), nullptr), cudaSuccess);
  std::vector<int> expected(16, 120);
  expected.insert(expected.end(), 16, 376);
  EXPECT_EQ(y.values(), expected);
}

TEST_P(Block, VotesOfABlock) {
  DeviceArray<int> y(3);
  ASSERT_EQ(launch_votes(y.data(), 77, nullptr), cudaSuccess);
  EXPECT_EQ(y.values(), (std::vector<int>{39, 0, 1}));
}

TEST_P(Block, AtomicsOfManyBlocks) {
  DeviceArray<unsigned> y(std::vector<unsigned>{0});
  ASSERT_EQ(launch_count(y.data(), 333, 256, nullptr), cudaSuccess);
  EXPECT_EQ(y.values()[0], 333U * 256U);
}

TEST_P(Block, DynamicSharedMemoryHasItsSize) {
  DeviceArray<int> y(1);
  ASSERT_EQ(launch_write_shared(y.data(), 33, 0, nullptr), cudaSuccess);
  EXPECT_EQ(y.values()[0], 7);
}

INSTANTIATE_TEST_SUITE_P(Orders, Block, ::testing::Values(0, 1, 2, 3));

#if MEZZO_WITH_ASAN
using BlockDeathTest = Block;

TEST_P(BlockDeathTest, AddressSanitizerSeesWhatKernelsDo) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  DeviceArray<int> x(10);
  EXPECT_DEATH(launch_write_at(x.data(), 10, nullptr), "heap-buffer-overflow");
  EXPECT_DEATH(launch_write_shared(x.data(), 33, 1, nullptr), "heap-buffer-overflow");
}

INSTANTIATE_TEST_SUITE_P(Orders, BlockDeathTest, ::testing::Values(0, 1));
#endif

}  // namespace
}  // namespace cuda_on_cpu_test
