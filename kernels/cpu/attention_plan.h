// Blocks of a ScaledDotProductAttention, and the products of matrices in them; see attention.cpp.
#pragma once

#include "kernels/attention_shape.h"
#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {

inline constexpr Int kQueries = 64;  // of a block
inline constexpr Int kKeys = 64;     // blocks see a multiple of this

struct AttentionPlan {
  const Isa* isa = nullptr;
  AttentionShape shape;
  DType dtype = DType::kFloat32;  // of all operands but the bias
  DType bias = DType::kNone;
  DType lse = DType::kNone;
  int threads = 1;
  bool grad = false;

  Int blocks() const { return ceil_div(shape.queries, kQueries); }
  Int rows(Int block) const { return std::min(kQueries, shape.queries - block * kQueries); }
  // Keys that any query of the block sees, rounded up.
  Int keys(Int block) const {
    const Int seen = shape.seen(block * kQueries + rows(block) - 1);
    return std::min(shape.keys, ceil_div(seen, kKeys) * kKeys);
  }
};

// The products of a block of so many queries and keys.
struct BlockKernels {
  std::unique_ptr<Kernel> scores, values;  // s, y
  std::unique_ptr<Kernel> dp, dq, dk, dv;

  std::size_t workspace_bytes() const {
    std::size_t bytes = 0;
    for (const Kernel* kernel :
         {scores.get(), values.get(), dp.get(), dq.get(), dk.get(), dv.get()}) {
      if (kernel != nullptr) bytes = std::max(bytes, kernel->workspace_bytes());
    }
    return bytes;
  }
};

StatusOr<BlockKernels> prepare_block(const AttentionPlan& plan, Int rows, Int keys);

}  // namespace mezzo::kernels::cpu
