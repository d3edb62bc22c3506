// The prepare functions of the reference kernels, one file per family. rows.cpp says which op uses
// which. Results are computed from operands read as double and rounded once.
#pragma once

#include "kernels/reference/reference_kernel.h"

namespace mezzo::kernels::reference {

// elementwise_unary.cpp
PreparedKernel prepare_unary(const KernelRequest& request);
PreparedKernel prepare_not(const KernelRequest& request);
PreparedKernel prepare_bitwise_not(const KernelRequest& request);
PreparedKernel prepare_is_nan(const KernelRequest& request);
PreparedKernel prepare_is_inf(const KernelRequest& request);
PreparedKernel prepare_bit_cast(const KernelRequest& request);
PreparedKernel prepare_clip(const KernelRequest& request);

// cast.cpp
PreparedKernel prepare_cast(const KernelRequest& request);

// elementwise_binary.cpp
PreparedKernel prepare_arithmetic(const KernelRequest& request);
PreparedKernel prepare_comparison(const KernelRequest& request);
PreparedKernel prepare_logic(const KernelRequest& request);
PreparedKernel prepare_pow(const KernelRequest& request);
PreparedKernel prepare_mod(const KernelRequest& request);
PreparedKernel prepare_bitwise(const KernelRequest& request);
PreparedKernel prepare_bit_shift(const KernelRequest& request);
PreparedKernel prepare_prelu(const KernelRequest& request);
PreparedKernel prepare_where(const KernelRequest& request);

// variadic.cpp
PreparedKernel prepare_add_n(const KernelRequest& request);
PreparedKernel prepare_variadic(const KernelRequest& request);

// fused_elementwise.cpp
PreparedKernel prepare_fused_elementwise(const KernelRequest& request);

// grad_elementwise.cpp
PreparedKernel prepare_unary_grad(const KernelRequest& request);
PreparedKernel prepare_clip_grad(const KernelRequest& request);
PreparedKernel prepare_pow_grad(const KernelRequest& request);

// contraction.cpp
PreparedKernel prepare_matmul(const KernelRequest& request);
PreparedKernel prepare_matmul_t(const KernelRequest& request);
PreparedKernel prepare_gemm(const KernelRequest& request);

// conv.cpp
PreparedKernel prepare_conv(const KernelRequest& request);
PreparedKernel prepare_conv_grad_input(const KernelRequest& request);
PreparedKernel prepare_conv_grad_weight(const KernelRequest& request);
PreparedKernel prepare_conv_grad_bias(const KernelRequest& request);
PreparedKernel prepare_conv_transpose(const KernelRequest& request);

// quantized.cpp
PreparedKernel prepare_matmul_activation(const KernelRequest& request);
PreparedKernel prepare_matmul_activation_grad(const KernelRequest& request);
PreparedKernel prepare_matmul_sums(const KernelRequest& request);
PreparedKernel prepare_matmul_integer(const KernelRequest& request);
PreparedKernel prepare_qlinear_matmul(const KernelRequest& request);
PreparedKernel prepare_conv_integer(const KernelRequest& request);
PreparedKernel prepare_qlinear_conv(const KernelRequest& request);

// attention.cpp
PreparedKernel prepare_attention(const KernelRequest& request);
PreparedKernel prepare_attention_grad(const KernelRequest& request);

// linear_attention.cpp, linear_attention_grad.cpp
PreparedKernel prepare_linear_attention_grad(const KernelRequest& request);
PreparedKernel prepare_linear_attention(const KernelRequest& request);

// recurrent.cpp, recurrent_grad.cpp
PreparedKernel prepare_recurrent_grad(const KernelRequest& request);
PreparedKernel prepare_recurrent(const KernelRequest& request);
PreparedKernel prepare_lstm(const KernelRequest& request);

// batch_norm.cpp, layer_norm.cpp, group_norm.cpp
PreparedKernel prepare_group_norm(const KernelRequest& request);
PreparedKernel prepare_rms_norm(const KernelRequest& request);
PreparedKernel prepare_rms_norm_grad(const KernelRequest& request);
PreparedKernel prepare_lrn(const KernelRequest& request);
PreparedKernel prepare_batch_norm(const KernelRequest& request);
PreparedKernel prepare_batch_norm_grad(const KernelRequest& request);
PreparedKernel prepare_layer_norm(const KernelRequest& request);
PreparedKernel prepare_layer_norm_grad(const KernelRequest& request);

// softmax.cpp, cross_entropy.cpp
PreparedKernel prepare_softmax(const KernelRequest& request);
PreparedKernel prepare_softmax_grad(const KernelRequest& request);
PreparedKernel prepare_cross_entropy(const KernelRequest& request);
PreparedKernel prepare_cross_entropy_grad(const KernelRequest& request);
PreparedKernel prepare_nll_loss(const KernelRequest& request);

// reduce.cpp, arg_extreme.cpp, scan.cpp
PreparedKernel prepare_reduce(const KernelRequest& request);
PreparedKernel prepare_sum_to(const KernelRequest& request);
PreparedKernel prepare_arg_extreme(const KernelRequest& request);
PreparedKernel prepare_hardmax(const KernelRequest& request);
PreparedKernel prepare_scan(const KernelRequest& request);
PreparedKernel prepare_cum_prod_grad(const KernelRequest& request);

// normalize.cpp, det.cpp
PreparedKernel prepare_lp_normalization(const KernelRequest& request);
PreparedKernel prepare_mean_variance(const KernelRequest& request);
PreparedKernel prepare_det(const KernelRequest& request);
PreparedKernel prepare_det_grad(const KernelRequest& request);

// quantize.cpp
PreparedKernel prepare_quantize(const KernelRequest& request);
PreparedKernel prepare_dequantize(const KernelRequest& request);
PreparedKernel prepare_dynamic_quantize(const KernelRequest& request);

// pool.cpp
PreparedKernel prepare_global_average_pool(const KernelRequest& request);
PreparedKernel prepare_global_average_pool_grad(const KernelRequest& request);
PreparedKernel prepare_max_pool(const KernelRequest& request);
PreparedKernel prepare_max_pool_grad(const KernelRequest& request);
PreparedKernel prepare_average_pool(const KernelRequest& request);
PreparedKernel prepare_average_pool_grad(const KernelRequest& request);

// pool_lp.cpp
PreparedKernel prepare_lp_pool(const KernelRequest& request);
PreparedKernel prepare_lp_pool_grad(const KernelRequest& request);
PreparedKernel prepare_global_lp_pool(const KernelRequest& request);

// movement.cpp, slice.cpp, pad.cpp
PreparedKernel prepare_reshape(const KernelRequest& request);
PreparedKernel prepare_transpose(const KernelRequest& request);
PreparedKernel prepare_concat(const KernelRequest& request);
PreparedKernel prepare_split(const KernelRequest& request);
PreparedKernel prepare_slice(const KernelRequest& request);
PreparedKernel prepare_slice_grad(const KernelRequest& request);
PreparedKernel prepare_expand(const KernelRequest& request);
PreparedKernel prepare_pad(const KernelRequest& request);
PreparedKernel prepare_reorder(const KernelRequest& request);
PreparedKernel prepare_trilu(const KernelRequest& request);
PreparedKernel prepare_fill_zero(const KernelRequest& request);

// gather.cpp
PreparedKernel prepare_gather(const KernelRequest& request);
PreparedKernel prepare_gather_grad(const KernelRequest& request);

// resize.cpp, grid_sample.cpp, image_grad.cpp, roi_pool.cpp, roi_grad.cpp, unpool.cpp,
// deform_conv.cpp
PreparedKernel prepare_grid_sample_grad(const KernelRequest& request);
PreparedKernel prepare_affine_grid_grad(const KernelRequest& request);
PreparedKernel prepare_roi_align_grad(const KernelRequest& request);
PreparedKernel prepare_max_roi_pool_grad(const KernelRequest& request);
PreparedKernel prepare_col2im_grad(const KernelRequest& request);
PreparedKernel prepare_deform_conv_grad(const KernelRequest& request);
PreparedKernel prepare_resize(const KernelRequest& request);
PreparedKernel prepare_grid_sample(const KernelRequest& request);
PreparedKernel prepare_affine_grid(const KernelRequest& request);
PreparedKernel prepare_roi_align(const KernelRequest& request);
PreparedKernel prepare_max_roi_pool(const KernelRequest& request);
PreparedKernel prepare_max_unpool(const KernelRequest& request);
PreparedKernel prepare_col2im(const KernelRequest& request);
PreparedKernel prepare_deform_conv(const KernelRequest& request);

// gather_elements.cpp, scatter.cpp
PreparedKernel prepare_gather_elements(const KernelRequest& request);
PreparedKernel prepare_gather_nd(const KernelRequest& request);
PreparedKernel prepare_scatter_elements(const KernelRequest& request);
PreparedKernel prepare_scatter_nd(const KernelRequest& request);
PreparedKernel prepare_tensor_scatter(const KernelRequest& request);

// select.cpp, unique.cpp, top_k.cpp, non_max_suppression.cpp
PreparedKernel prepare_non_zero(const KernelRequest& request);
PreparedKernel prepare_compress(const KernelRequest& request);
PreparedKernel prepare_unique(const KernelRequest& request);
PreparedKernel prepare_top_k(const KernelRequest& request);
PreparedKernel prepare_non_max_suppression(const KernelRequest& request);

// one_hot.cpp
PreparedKernel prepare_one_hot(const KernelRequest& request);
PreparedKernel prepare_eye_like(const KernelRequest& request);
PreparedKernel prepare_reverse_sequence(const KernelRequest& request);

// shape.cpp
PreparedKernel prepare_shape(const KernelRequest& request);
PreparedKernel prepare_size(const KernelRequest& request);
PreparedKernel prepare_constant_of_shape(const KernelRequest& request);
PreparedKernel prepare_range(const KernelRequest& request);

// random.cpp
PreparedKernel prepare_dropout(const KernelRequest& request);
PreparedKernel prepare_dropout_grad(const KernelRequest& request);

// draw.cpp
PreparedKernel prepare_random_uniform(const KernelRequest& request);
PreparedKernel prepare_random_normal(const KernelRequest& request);
PreparedKernel prepare_bernoulli(const KernelRequest& request);
PreparedKernel prepare_multinomial(const KernelRequest& request);

// optimizers.cpp
PreparedKernel prepare_adagrad(const KernelRequest& request);
PreparedKernel prepare_adam(const KernelRequest& request);
PreparedKernel prepare_momentum(const KernelRequest& request);

// signal.cpp
PreparedKernel prepare_dft_grad(const KernelRequest& request);
PreparedKernel prepare_stft_grad(const KernelRequest& request);
PreparedKernel prepare_dft(const KernelRequest& request);
PreparedKernel prepare_stft(const KernelRequest& request);
PreparedKernel prepare_mel_weights(const KernelRequest& request);

}  // namespace mezzo::kernels::reference
