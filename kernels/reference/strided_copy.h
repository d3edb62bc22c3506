// Moves elements bit for bit between two strided views of whole-byte dtypes.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/reference/loop.h"

namespace mezzo::kernels::reference {

// View 0 of the loop is the source, view 1 the target; `start` are the offsets, in elements, of
// the first element of each.
struct StridedCopy {
  Loop<2> loop;
  std::array<std::int64_t, 2> start{};
  std::size_t element_bytes = 0;

  void run(const void* from, void* to) const;
};

// Copies all of `from` to `to`, which has the same dims, whatever the layouts.
StridedCopy whole_copy(const TensorDesc& from, const TensorDesc& to);

std::size_t element_bytes(const TensorDesc& desc);

}  // namespace mezzo::kernels::reference
