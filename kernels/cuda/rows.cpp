#include "kernels/cuda/rows.h"

#include <string>

#include "kernels/request_check.h"

namespace mezzo::kernels::cuda {
namespace {

// In the order of preference for operators that several have; one family a line.
// clang-format off
constexpr std::span<const KernelEntry> (*kFamilies[])() = {
    fill_rows,
    blaslt_rows,
    matmul_rows,
    dnn_rows,
    softmax_rows,
    attention_rows,
    attention_grad_rows,
    row_norm_grad_rows,
    batch_norm_rows,
    pool_rows,
    pool_grad_rows,
    conv_rows,
    row_norm_rows,
    loss_rows,
    grid_sample_grad_rows,
    resize_rows,
    unpool_rows,
    local_norm_rows,
    column_rows,
    extreme_rows,
    gather_grad_rows,
    gathering_rows,
    grid_rows,
    movement_rows,
    pad_rows,
    global_pool_grad_rows,
    recurrent_rows,
    reduce_rows,
    quantize_rows,
    quantized_rows,
    random_rows,
    roi_rows,
    scan_rows,
    scatter_rows,
    select_rows,
    elementwise_rows,
};
// clang-format on

}  // namespace

std::vector<const KernelEntry*> all_rows() {
  std::vector<const KernelEntry*> all;
  for (const auto family : kFamilies) {
    for (const KernelEntry& row : family()) all.push_back(&row);
  }
  return all;
}

std::vector<const KernelEntry*> rows(std::string_view op) {
  std::vector<const KernelEntry*> found;
  for (const auto family : kFamilies) {
    for (const KernelEntry& row : family()) {
      if (row.op == op) found.push_back(&row);
    }
  }
  return found;
}

StatusOr<std::unique_ptr<Kernel>> prepare_kernel(const KernelRequest& request) {
  if (request.device == nullptr) return internal_error("a CUDA kernel without a device");
  MEZZO_RETURN_IF_ERROR(check_request(request));
  std::string refusals;
  for (const KernelEntry* row : rows(request.op)) {
    auto kernel = row->prepare(request);
    if (kernel.ok() || kernel.status().code() != StatusCode::kUnimplemented) return kernel;
    refusals += (refusals.empty() ? "" : "; ") + std::string(row->implementation) + ": " +
                kernel.status().message();
  }
  if (refusals.empty()) return unimplemented("no CUDA kernel for operator '" + request.op + "'");
  return unimplemented("no CUDA kernel of '" + request.op + "' supports this request: " + refusals);
}

}  // namespace mezzo::kernels::cuda
