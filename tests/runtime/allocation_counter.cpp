#include "allocation_counter.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "tests/support/sanitizers.h"

namespace mezzo::test {
namespace {

constexpr int kMostFrames = 24;
constexpr int kMostStacks = 4096;

struct Stack {
  std::array<void*, kMostFrames> frames;
  int depth;
};
std::array<Stack, kMostStacks> stacks;  // static: recording must not allocate
std::atomic<int> count{0};
std::atomic<bool> armed{false};
thread_local bool recording = false;

[[maybe_unused]] void record() {  // by the hooks below, which sanitizers do without
  if (!armed.load(std::memory_order_relaxed) || recording) return;
  recording = true;
  const int slot = count.fetch_add(1);
  if (slot < kMostStacks) {
    Stack& stack = stacks[static_cast<std::size_t>(slot)];
    stack.depth = backtrace(stack.frames.data(), kMostFrames);
  }
  recording = false;
}

std::string_view file_of(void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

bool is_library(const Stack& stack) {
  return std::any_of(stack.frames.begin(), stack.frames.begin() + stack.depth, [](void* frame) {
    const std::string_view file = file_of(frame);
    return file.find("libdnnl") != std::string_view::npos ||
           file.find("libgomp") != std::string_view::npos;
  });
}

}  // namespace
}  // namespace mezzo::test

#if MEZZO_WITH_ASAN

namespace mezzo::test {
bool can_count_allocations() { return false; }
}  // namespace mezzo::test

#else

// The C library calls these in place of its own; operator new ends here as well.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  mezzo::test::record();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t number, std::size_t bytes) {
  mezzo::test::record();
  return __libc_calloc(number, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  mezzo::test::record();
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  mezzo::test::record();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  mezzo::test::record();
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? 12 : 0;  // ENOMEM
}
}

namespace mezzo::test {
bool can_count_allocations() { return true; }
}  // namespace mezzo::test

#endif

namespace mezzo::test {

AllocationCounter::AllocationCounter() {
  void* frame = nullptr;
  backtrace(&frame, 1);  // its first call loads a library
  count = 0;
  armed = true;
}

Allocations AllocationCounter::stop() {
  armed = false;
  Allocations result;
  const int recorded = std::min(count.load(), kMostStacks);
  for (int i = 0; i < recorded; ++i) {
    const Stack& stack = stacks[static_cast<std::size_t>(i)];
    if (is_library(stack)) {
      ++result.library;
      continue;
    }
    ++result.own;
    if (result.own_callers.size() >= 3) continue;
    char** names = backtrace_symbols(stack.frames.data(), stack.depth);
    std::string text;
    for (int frame = 0; names != nullptr && frame < stack.depth; ++frame)
      text += std::string("\n  ") + names[frame];
    std::free(names);
    result.own_callers.push_back(text);
  }
  result.own += count.load() - recorded;
  return result;
}

}  // namespace mezzo::test
