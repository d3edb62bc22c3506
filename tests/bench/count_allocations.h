// Counts what the program allocates with operator new, libraries included.
#pragma once

#include <cstdint>

namespace mezzo::bench {

// Allocations since the program started. The count starts where count_allocations.cpp is linked.
std::int64_t allocation_count();

}  // namespace mezzo::bench
