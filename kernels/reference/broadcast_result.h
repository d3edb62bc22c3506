// What operators of any number of operands give that broadcast with each other.
#pragma once

#include "compiler/support/text.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {

// InvalidArgument unless all operands broadcast, and result 0 has the dims that come of it.
// REQUIRES: there is an operand.
inline Status expect_broadcast_result(const Operands& operands) {
  Dims dims = operands.in(0).dims;
  for (std::size_t i = 1; i < operands.in_count(); ++i) {
    const auto joined = broadcast_dims(dims, operands.in(i).dims);
    if (!joined) {
      return operands.in_error(i, "dims " + format_dims(operands.in(i).dims) +
                                      " do not broadcast with " + format_dims(dims) +
                                      " of those before it");
    }
    dims = *joined;
  }
  return operands.expect_out(0, dims);
}

}  // namespace mezzo::kernels::reference
