// The rows of the CUDA kernels, family by family. All work on one GPU, described by the request's
// Context; results are the same bits in every run.
#pragma once

#include <span>
#include <vector>

#include "kernels/kernel.h"

namespace mezzo::kernels::cuda {

// Of all operators.
std::vector<const KernelEntry*> all_rows();

// All rows for `op`, best first; empty if no kernel exists.
std::vector<const KernelEntry*> rows(std::string_view op);

// The first row that supports the request. Unimplemented lists why each row refused.
// REQUIRES: request.device points to a Context.
StatusOr<std::unique_ptr<Kernel>> prepare_kernel(const KernelRequest& request);

// The families; rows.cpp puts them in order.
std::span<const KernelEntry> fill_rows();
std::span<const KernelEntry> blaslt_rows();  // contractions through cuBLASLt
std::span<const KernelEntry> matmul_rows();  // contractions by own kernels
std::span<const KernelEntry> dnn_rows();     // convolutions, normalisations, attention by cuDNN
std::span<const KernelEntry> softmax_rows();
std::span<const KernelEntry> attention_rows();
std::span<const KernelEntry> attention_grad_rows();
std::span<const KernelEntry> row_norm_grad_rows();
std::span<const KernelEntry> batch_norm_rows();
std::span<const KernelEntry> pool_rows();
std::span<const KernelEntry> pool_grad_rows();
std::span<const KernelEntry> conv_rows();  // by own kernels
std::span<const KernelEntry> row_norm_rows();
std::span<const KernelEntry> loss_rows();
std::span<const KernelEntry> grid_sample_grad_rows();
std::span<const KernelEntry> resize_rows();
std::span<const KernelEntry> unpool_rows();
std::span<const KernelEntry> local_norm_rows();
std::span<const KernelEntry> column_rows();
std::span<const KernelEntry> extreme_rows();
std::span<const KernelEntry> gather_grad_rows();
std::span<const KernelEntry> gathering_rows();
std::span<const KernelEntry> global_pool_grad_rows();
std::span<const KernelEntry> grid_rows();
std::span<const KernelEntry> movement_rows();
std::span<const KernelEntry> pad_rows();
std::span<const KernelEntry> quantize_rows();
std::span<const KernelEntry> quantized_rows();
std::span<const KernelEntry> random_rows();
std::span<const KernelEntry> recurrent_rows();
std::span<const KernelEntry> reduce_rows();
std::span<const KernelEntry> roi_rows();
std::span<const KernelEntry> scan_rows();
std::span<const KernelEntry> scatter_rows();
std::span<const KernelEntry> select_rows();
std::span<const KernelEntry> elementwise_rows();  // casts and programs, too

}  // namespace mezzo::kernels::cuda
