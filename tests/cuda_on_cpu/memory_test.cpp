// The stand-in for libcudart: memory, copies, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/facility_kernels.h"
#include "tests/support/sanitizers.h"

namespace cuda_on_cpu_test {
namespace {

void* device_memory(std::size_t bytes) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
  return memory;
}

TEST(Memory, IsAlignedAndFullOfNaN) {
  void* const memory = device_memory(100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
  float first;
  std::memcpy(&first, memory, sizeof first);
  EXPECT_NE(first, first);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue) << "twice";
  cuda_on_cpu::take_fault();
}

TEST(Memory, CapacityIsLimited) {
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, free + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(Memory, CopiesMustBeOfTheRightKind) {
  void* const device = device_memory(8);
  std::vector<char> host(9, 3);
  EXPECT_EQ(cudaMemcpy(device, host.data(), 8, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(device, host.data(), 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device, host.data(), 9, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device, 0, 9), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  cuda_on_cpu::take_fault();
}

TEST(Memory, CopiesMustNotOverlap) {
  auto* const device = static_cast<char*>(device_memory(16));
  const auto copy = [](char* to, const char* from, std::size_t bytes) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr);
  };
  EXPECT_EQ(copy(device + 8, device, 8), cudaSuccess);
  EXPECT_EQ(copy(device + 4, device, 8), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device, device, 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  cuda_on_cpu::take_fault();
}

TEST(Memory, LaunchesThatNoDeviceTakesAreRefused) {
  EXPECT_EQ(launch_two_barriers(1025, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch_count(nullptr, 0, 32, nullptr), cudaErrorInvalidConfiguration);
  int* const y = static_cast<int*>(device_memory(4));
  EXPECT_EQ(launch_write_shared(y, 49 << 8, 0, nullptr), cudaErrorInvalidConfiguration)
      << "more than 48 KiB, and nobody asked for more";
  EXPECT_EQ(cudaFree(y), cudaSuccess);
  cuda_on_cpu::take_fault();
}

#if !MEZZO_WITH_ASAN
TEST(Memory, WritingBehindABlockIsNoticedWhenItIsFreed) {
  int* const memory = static_cast<int*>(device_memory(40));
  ASSERT_EQ(launch_write_at(memory, 10, nullptr), cudaSuccess);
  cudaFree(memory);
  EXPECT_EQ(cuda_on_cpu::take_fault(), "something wrote behind a block of 40 bytes");
}
#endif

}  // namespace
}  // namespace cuda_on_cpu_test
