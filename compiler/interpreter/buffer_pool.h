// Memory for values: blocks that are given back when the last value that holds them goes, and used
// again. Counts what is alive, so that a graph cannot ask for more than a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "compiler/support/status.h"

namespace mezzo {

class BufferPool {
 public:
  // 0: as much as the machine has memory.
  explicit BufferPool(std::uint64_t most_bytes);

  // At least `bytes` bytes (and one), aligned to 64, contents undefined. May outlive the pool.
  // InvalidArgument: beyond the limit, or the machine gives no more.
  StatusOr<std::shared_ptr<std::byte>> allocate(std::uint64_t bytes);

  std::uint64_t peak_bytes() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace mezzo
