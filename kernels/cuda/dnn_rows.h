// The prepare functions of the cuDNN rows; kernels/README.md has their operands.
#pragma once

#include <memory>

#include "kernels/kernel.h"

namespace mezzo::kernels::cuda::dnn {

StatusOr<std::unique_ptr<Kernel>> prepare_conv(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_conv_grad_input(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_conv_grad_weight(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_conv_transpose(const KernelRequest& request);

StatusOr<std::unique_ptr<Kernel>> prepare_batch_norm(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_batch_norm_grad(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_layer_norm(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_layer_norm_grad(const KernelRequest& request);

StatusOr<std::unique_ptr<Kernel>> prepare_attention(const KernelRequest& request);
StatusOr<std::unique_ptr<Kernel>> prepare_attention_grad(const KernelRequest& request);

}  // namespace mezzo::kernels::cuda::dnn
