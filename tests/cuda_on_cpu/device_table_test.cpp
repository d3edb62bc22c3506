// Tables that kernels hold: they are there for every stream, whatever the order of streams.
#include "kernels/cuda/device_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda_on_cpu/control.h"

namespace mezzo::kernels::cuda {
namespace {

TEST(DeviceTable, IsThereWhenAStreamThatDoesNotBlockReadsIt) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  const std::vector<int> numbers = {3, 1, 4, 1, 5};
  const std::size_t bytes = numbers.size() * sizeof(int);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_on_cpu::set_stream_order(seed);
    const auto table = DeviceTable::copy_of(numbers.data(), bytes);
    ASSERT_TRUE(table.ok()) << table.status().message();
    std::vector<int> got(numbers.size());
    ASSERT_EQ(cudaMemcpyAsync(got.data(), table->as<int>(), bytes, cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    EXPECT_EQ(got, numbers) << "order " << seed;
  }
  cuda_on_cpu::set_stream_order(0);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace mezzo::kernels::cuda
