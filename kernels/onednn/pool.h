// Average pools; README.md has their operands. prepare functions of kernel rows.
//
// MaxPool is not among them: the library's drops NaN and turns -inf into the lowest finite value,
// which would hide an overflow from the loss scaler.
#pragma once

#include <memory>

#include "kernels/kernel.h"

namespace mezzo::kernels::onednn {

StatusOr<std::unique_ptr<Kernel>> prepare_average_pool(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_average_pool_grad(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_global_average_pool(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_global_average_pool_grad(const KernelRequest& request);

}  // namespace mezzo::kernels::onednn
