#include "kernels/cuda/dnn_rows.h"

#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr KernelEntry kRows[] = {
    {"Conv", "cudnn", dnn::prepare_conv},
    {"ConvGradInput", "cudnn", dnn::prepare_conv_grad_input},
    {"ConvGradWeight", "cudnn", dnn::prepare_conv_grad_weight},
    {"ConvTranspose", "cudnn", dnn::prepare_conv_transpose},
    {"BatchNormalization", "cudnn", dnn::prepare_batch_norm},
    {"BatchNormalizationGrad", "cudnn", dnn::prepare_batch_norm_grad},
    {"LayerNormalization", "cudnn", dnn::prepare_layer_norm},
    {"LayerNormalizationGrad", "cudnn", dnn::prepare_layer_norm_grad},
    {"ScaledDotProductAttention", "cudnn", dnn::prepare_attention},
    {"ScaledDotProductAttentionGrad", "cudnn", dnn::prepare_attention_grad},
};

}  // namespace

std::span<const KernelEntry> dnn_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
