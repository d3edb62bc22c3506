#include "compiler/interpreter/buffer_pool.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace mezzo {
namespace {

constexpr std::uint64_t kAlignment = 64;
// Idle blocks beyond this go back to the system.
constexpr std::uint64_t kMostIdleBytes = std::uint64_t{256} << 20;

std::uint64_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
             : std::numeric_limits<std::int64_t>::max();
}

// Sizes are rounded to eighths of a power of two, so that blocks fit again although shapes vary.
std::uint64_t block_size(std::uint64_t bytes) {
  const std::uint64_t step = std::max(kAlignment, std::bit_floor(bytes) / 8);
  return std::max(kAlignment, (bytes + step - 1) / step * step);
}

}  // namespace

class BufferPool::State {
 public:
  explicit State(std::uint64_t most_bytes)
      : most_(most_bytes == 0 ? physical_memory() : most_bytes) {}
  ~State() { drop_idle(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  StatusOr<std::byte*> take(std::uint64_t size) {
    if (size > most_ || live_ > most_ - size) {
      return invalid_argument("values need " + std::to_string(size) + " bytes more than the " +
                              std::to_string(live_) + " in use, and may have " +
                              std::to_string(most_));
    }
    void* block = nullptr;
    std::vector<void*>& fitting = idle_[size];
    if (!fitting.empty()) {
      block = fitting.back();
      fitting.pop_back();
      idle_bytes_ -= size;
    } else {
      if (live_ + idle_bytes_ > most_ - size) drop_idle();
      block = std::aligned_alloc(kAlignment, size);
    }
    if (block == nullptr)
      return invalid_argument("cannot get " + std::to_string(size) + " bytes of memory");
    live_ += size;
    peak_ = std::max(peak_, live_);
    return static_cast<std::byte*>(block);
  }

  void give_back(void* block, std::uint64_t size) {
    live_ -= size;
    if (idle_bytes_ + size > kMostIdleBytes) {
      std::free(block);
      return;
    }
    idle_[size].push_back(block);
    idle_bytes_ += size;
  }

  std::uint64_t peak() const { return peak_; }

 private:
  void drop_idle() {
    for (auto& [size, blocks] : idle_) {
      for (void* block : blocks) std::free(block);
    }
    idle_.clear();
    idle_bytes_ = 0;
  }

  std::uint64_t most_, live_ = 0, peak_ = 0, idle_bytes_ = 0;
  std::map<std::uint64_t, std::vector<void*>> idle_;
};

BufferPool::BufferPool(std::uint64_t most_bytes) : state_(std::make_shared<State>(most_bytes)) {}

StatusOr<std::shared_ptr<std::byte>> BufferPool::allocate(std::uint64_t bytes) {
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 2)
    return invalid_argument("a value of " + std::to_string(bytes) + " bytes fits no memory");
  const std::uint64_t size = block_size(bytes);
  MEZZO_ASSIGN_OR_RETURN(std::byte* const block, state_->take(size));
  return std::shared_ptr<std::byte>(
      block, [state = state_, size](std::byte* released) { state->give_back(released, size); });
}

std::uint64_t BufferPool::peak_bytes() const { return state_->peak(); }

}  // namespace mezzo
