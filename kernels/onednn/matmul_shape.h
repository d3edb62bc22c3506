// Matrix products as the library takes them: dims and strides of equal rank, with as few batch
// dimensions as possible.
#pragma once

#include <cstdint>

#include "compiler/support/status.h"
#include "kernels/onednn/engine.h"

namespace mezzo::kernels::onednn {

enum class Transposed : std::uint8_t { kNo, kYes };

struct Strided {
  Dims dims;
  Dims strides;
};

// y[.., M, N] = a[.., M, K] b[.., K, N]; a batch dimension of 1 is broadcast.
struct MatMulShape {
  Strided a;
  Strided b;
  Strided y;
  std::int64_t depth = 0;  // K
};

// For dense row-major operands of the given dims. Follows numpy: a vector is a row on the left, a
// column on the right, and loses that dimension in the result. `transposed_*` exchanges the last
// two dims of a matrix first. Batches that b does not have are folded into M, neighbouring batch
// dimensions into one. InvalidArgument where the dims do not fit.
StatusOr<MatMulShape> matmul_shape(const Dims& a, Transposed transposed_a, const Dims& b,
                                   Transposed transposed_b, const Dims& y);

}  // namespace mezzo::kernels::onednn
