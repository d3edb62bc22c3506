// Private to the interpreter: cutting and joining tensors, for scans and sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/interpreter/machine.h"

namespace mezzo::interpreter {

// Elements begin .. begin + count - 1 along `axis`. The buffer is shared where the part lies in one
// aligned piece. REQUIRES: axis and range are valid.
StatusOr<HostTensor> part_of(Machine& machine, const HostTensor& tensor, std::size_t axis,
                             std::int64_t begin, std::int64_t count);

// Joined along `axis`. InvalidArgument: types, ranks or other dims differ, or none are given.
StatusOr<HostTensor> join(Machine& machine, const std::vector<const HostTensor*>& parts,
                          std::size_t axis);

// As join, along a new axis; `backwards`: the last part comes first.
StatusOr<HostTensor> stack(Machine& machine, const std::vector<HostTensor>& parts, std::size_t axis,
                           bool backwards);

// The tensor without (or with) a dimension of 1 at `axis`; the buffer is shared.
HostTensor without_axis(HostTensor tensor, std::size_t axis);
HostTensor with_axis(HostTensor tensor, std::size_t axis);

// `axis` counted from the end where negative; nothing where it is not in [-rank, rank).
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);

}  // namespace mezzo::interpreter
