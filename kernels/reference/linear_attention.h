// The shape of LinearAttention, which its gradient shares. Formulas and letters:
// linear_attention.cpp.
#pragma once

#include <cstdint>

#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {

namespace linear_attention {
enum Operand : std::size_t { kQ, kK, kV, kPast, kDecay, kBeta, kOperands };
}

struct LinearAttentionShape {
  std::int64_t batch = 0, steps = 0, q_heads = 1, heads = 1, k_size = 0, v_size = 0;
  std::int64_t decay_size = 0, beta_heads = 0;  // per head and step; 0: there is none
  double scale = 1.0;
};

// From a request of LinearAttention.
StatusOr<LinearAttentionShape> read_linear_attention(const Operands& operands);

}  // namespace mezzo::kernels::reference
