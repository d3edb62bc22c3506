#include "tests/bench/count_allocations.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> allocations = 0;
}

namespace mezzo::bench {
std::int64_t allocation_count() { return allocations.load(std::memory_order_relaxed); }
}  // namespace mezzo::bench

// The forms for arrays and the sized delete lead here.
void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(std::max<std::size_t>(bytes, 1))) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
