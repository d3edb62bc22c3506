#include "kernels/onednn/rows.h"

#include <memory>

#include "kernels/onednn/conv.h"
#include "kernels/onednn/grain.h"
#include "kernels/onednn/matmul.h"
#include "kernels/onednn/norm.h"
#include "kernels/onednn/pool.h"

namespace mezzo::kernels {
namespace {

// Small requests are prepared for fewer threads.
template <StatusOr<std::unique_ptr<Kernel>> (*kPrepare)(const KernelRequest&)>
StatusOr<std::unique_ptr<Kernel>> in_grains(const KernelRequest& request) {
  const int threads = onednn::worthwhile_threads(request);
  if (threads == request.threads) return kPrepare(request);
  KernelRequest smaller = request;
  smaller.threads = threads;
  return kPrepare(smaller);
}

template <StatusOr<std::unique_ptr<Kernel>> (*kPrepare)(const KernelRequest&)>
constexpr KernelEntry row(std::string_view op) {
  return {op, "onednn", in_grains<kPrepare>};
}

constexpr KernelEntry kRows[] = {
    row<onednn::prepare_conv>("Conv"),
    row<onednn::prepare_conv_grad_input>("ConvGradInput"),
    row<onednn::prepare_conv_grad_weight>("ConvGradWeight"),
    row<onednn::prepare_conv_transpose>("ConvTranspose"),
    row<onednn::prepare_matmul>("MatMul"),
    row<onednn::prepare_matmul_transposed>("MatMulT"),
    row<onednn::prepare_gemm>("Gemm"),
    row<onednn::prepare_batch_norm>("BatchNormalization"),
    row<onednn::prepare_batch_norm_grad>("BatchNormalizationGrad"),
    row<onednn::prepare_layer_norm>("LayerNormalization"),
    row<onednn::prepare_layer_norm_grad>("LayerNormalizationGrad"),
    row<onednn::prepare_average_pool>("AveragePool"),
    row<onednn::prepare_average_pool_grad>("AveragePoolGrad"),
    row<onednn::prepare_global_average_pool>("GlobalAveragePool"),
    row<onednn::prepare_global_average_pool_grad>("GlobalAveragePoolGrad"),
};

}  // namespace

std::span<const KernelEntry> onednn_rows() { return kRows; }

}  // namespace mezzo::kernels
