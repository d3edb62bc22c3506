// Convolutions; README.md has their operands. prepare functions of kernel rows (see KernelEntry).
#pragma once

#include <memory>

#include "kernels/kernel.h"

namespace mezzo::kernels::onednn {

StatusOr<std::unique_ptr<Kernel>> prepare_conv(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_conv_grad_input(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_conv_grad_weight(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_conv_transpose(const KernelRequest& request);

}  // namespace mezzo::kernels::onednn
