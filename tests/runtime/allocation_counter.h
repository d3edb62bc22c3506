// Counts heap allocations of this process while armed, told apart by who makes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::test {

struct Allocations {
  std::int64_t own = 0;                  // of code in the test program, that is, of mezzo
  std::int64_t library = 0;              // inside oneDNN or the OpenMP runtime
  std::vector<std::string> own_callers;  // a few, for messages
};

// False where malloc cannot be replaced: the address sanitizer has its own.
bool can_count_allocations();

// Counts what all threads allocate from construction to stop().
class AllocationCounter {
 public:
  AllocationCounter();
  Allocations stop();
};

}  // namespace mezzo::test
