#include "kernels/onednn/rows.h"

#include "kernels/onednn/conv.h"
#include "kernels/onednn/matmul.h"
#include "kernels/onednn/norm.h"
#include "kernels/onednn/pool.h"

namespace mezzo::kernels {
namespace {

constexpr KernelEntry kRows[] = {
    {"Conv", "onednn", onednn::prepare_conv},
    {"ConvGradInput", "onednn", onednn::prepare_conv_grad_input},
    {"ConvGradWeight", "onednn", onednn::prepare_conv_grad_weight},
    {"ConvTranspose", "onednn", onednn::prepare_conv_transpose},
    {"MatMul", "onednn", onednn::prepare_matmul},
    {"MatMulT", "onednn", onednn::prepare_matmul_transposed},
    {"Gemm", "onednn", onednn::prepare_gemm},
    {"BatchNormalization", "onednn", onednn::prepare_batch_norm},
    {"BatchNormalizationGrad", "onednn", onednn::prepare_batch_norm_grad},
    {"LayerNormalization", "onednn", onednn::prepare_layer_norm},
    {"LayerNormalizationGrad", "onednn", onednn::prepare_layer_norm_grad},
    {"AveragePool", "onednn", onednn::prepare_average_pool},
    {"AveragePoolGrad", "onednn", onednn::prepare_average_pool_grad},
    {"GlobalAveragePool", "onednn", onednn::prepare_global_average_pool},
    {"GlobalAveragePoolGrad", "onednn", onednn::prepare_global_average_pool_grad},
};

}  // namespace

std::span<const KernelEntry> onednn_rows() { return kRows; }

}  // namespace mezzo::kernels
