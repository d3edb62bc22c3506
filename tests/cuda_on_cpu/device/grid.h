// Runs all blocks of one launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/device/registry.h"

namespace cuda_on_cpu {

// In which order threads and blocks are run. Correct kernels give the same under every order.
struct Order {
  // 0: threads and blocks by their numbers, each as far as it gets. Others: at random.
  std::uint64_t seed = 0;
};

struct Launch {
  const KernelInfo* kernel = nullptr;
  dim3 grid, block;
  void** arguments = nullptr;
  std::size_t shared_bytes = 0;
  Order order;
};

// A place in the sources where a barrier stands.
struct Barrier {
  std::string file;
  unsigned line = 0;
  bool operator<(const Barrier& other) const {
    return file != other.file ? file < other.file : line < other.line;
  }
};

// Empty, or what is wrong with the kernel: threads at different barriers, threads that wait for
// ever. All blocks run to their end, or to the first fault. Blocks are spread over as many threads
// as CUDA_ON_CPU_THREADS says, by default one per processor.
std::string run_grid(const Launch& launch);

// --- for mutation tests ---
// Barriers that any thread came to since recording began. Not to be called while a grid runs.
void record_barriers(bool on);
std::vector<Barrier> recorded_barriers();
// The barrier that is no barrier from now on; null: all are again.
void remove_barrier(const Barrier* barrier);

}  // namespace cuda_on_cpu
