// Private to compiler/ops: gradients of matrix products, as MatMulT: no transposed copy is made.
#pragma once

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

StatusOr<Gradients> grad_matmul(GradientContext& ctx);
StatusOr<Gradients> grad_gemm(GradientContext& ctx);
StatusOr<Gradients> grad_matmul_t(GradientContext& ctx);

}  // namespace mezzo
