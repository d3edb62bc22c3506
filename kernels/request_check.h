// Checks every request must pass before any kernel looks at it, whatever the operator.
//
// Plans are untrusted. After this check no dim is negative, every rank is at most kMaxRank, sizes
// in elements, in bytes and as doubles fit into 64 bits with room to spare, and every known
// attribute holds the kind of value its name asks for. Kernels check the rest: counts, ranks and
// dims of their operands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/support/status.h"
#include "kernels/kernel.h"

namespace mezzo::kernels {

inline constexpr std::size_t kMaxRank = 12;

// Most elements of a tensor, empty dims counted as one. Below the 2^47 bytes a process can address
// for every dtype, and far from overflow when multiplied with 16 bytes or a few operands are added.
inline constexpr std::int64_t kMaxElems = std::int64_t{1} << 46;

Status check_request(const KernelRequest& request);

}  // namespace mezzo::kernels
