// Tensors as lines along one axis, for what works line by line: Softmax, CumSum, LpNormalization.
#pragma once

#include "compiler/support/status.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {

// A tensor as lines along one axis, elements numbered in row-major order of the logical dims.
struct Lines {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;

  // Calls visit(start) for every line; its elements are start + i inner, 0 <= i < length.
  template <typename Visit>
  void for_each_line(Visit&& visit) const {
    if (length == 0) return;
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) visit(o * length * inner + i);
    }
  }
};

// Of operand 0, along attribute "axis".
StatusOr<Lines> read_lines(const Operands& operands, std::int64_t fallback = -1);

}  // namespace mezzo::kernels::reference
