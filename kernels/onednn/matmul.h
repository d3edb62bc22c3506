// Matrix products; README.md has their operands. prepare functions of kernel rows.
#pragma once

#include <memory>

#include "kernels/kernel.h"

namespace mezzo::kernels::onednn {

StatusOr<std::unique_ptr<Kernel>> prepare_matmul(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_matmul_transposed(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_gemm(const KernelRequest& request);

}  // namespace mezzo::kernels::onednn
