// Normalisations; README.md has their operands. prepare functions of kernel rows.
#pragma once

#include <memory>

#include "kernels/kernel.h"

namespace mezzo::kernels::onednn {

StatusOr<std::unique_ptr<Kernel>> prepare_batch_norm(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_batch_norm_grad(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_layer_norm(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_layer_norm_grad(const KernelRequest& request);

}  // namespace mezzo::kernels::onednn
