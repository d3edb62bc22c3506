// Conv, ConvTranspose and the gradients of Conv.
//
// x N C D1.., w M C/group K1.., b M, y N M E1..; dx, dw, dy like x, w, y. Activations are computed
// channels last; weights are brought into the blocked order the library asks for in every run,
// since they change in every step. Results are overwritten.
#include "kernels/onednn/conv.h"

#include "kernels/onednn/choice.h"
#include "kernels/onednn/sequence.h"
#include "kernels/onednn/window.h"

namespace mezzo::kernels::onednn {
namespace {

using KernelPtr = std::unique_ptr<Kernel>;
using Forward = dnnl::convolution_forward;
using GradInput = dnnl::convolution_backward_data;
using GradWeight = dnnl::convolution_backward_weights;
using Transpose = dnnl::deconvolution_forward;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// The operand `weights` of the request, with the group as a dimension of its own.
Operand grouped(const Operand& weights, const ConvGeometry& geometry) {
  if (geometry.group == 1) return weights;
  Dims strides = weights.desc.get_strides();
  strides.insert(strides.begin(), strides.front() * geometry.w[1]);
  return {weights.buffer, {geometry.w, weights.desc.get_data_type(), strides}};
}

// The bias as the library takes it: float32, or bfloat16 beside bfloat16 operands.
MemoryDesc bias_desc(const KernelRequest& request, const Choice& choice) {
  if (request.inputs.size() < 3 || !request.inputs[2].present()) return {};
  const DType dtype = choice.result_dtype(request.inputs[2].dtype);
  return dense_desc(request.inputs[2].dims, dtype, Layout::kRowMajor);
}

Status check_bias(const KernelRequest& request, std::int64_t channels) {
  if (request.inputs.size() < 3 || !request.inputs[2].present()) return ok_status();
  if (request.inputs[2].dims == Dims{channels}) return ok_status();
  return invalid_argument("operand 2 (bias): expected one value for each of " +
                          std::to_string(channels) + " channels");
}

// Runs `primitive` on x, w and the optional bias (operands 0 to 2) into result 0.
template <typename Desc, typename Primitive>
StatusOr<KernelPtr> finish_forward(const KernelRequest& request, const Choice& choice,
                                   const Operand& weights, const Desc& desc,
                                   const Primitive& primitive) {
  SequenceBuilder builder(request);
  MEZZO_ASSIGN_OR_RETURN(const Operand x, builder.as(builder.input(0), desc.src_desc()));
  MEZZO_ASSIGN_OR_RETURN(const Operand w, builder.as(weights, desc.weights_desc()));
  const Operand result = builder.output(0);
  const Operand y = builder.place_for(result, desc.dst_desc());
  std::vector<std::pair<int, Operand>> arguments = {
      {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}};
  if (!desc.bias_desc().is_zero()) {
    MEZZO_ASSIGN_OR_RETURN(const Operand b, builder.as(builder.input(2), desc.bias_desc()));
    arguments.emplace_back(DNNL_ARG_BIAS, b);
  }
  MEZZO_RETURN_IF_ERROR(builder.add(desc, primitive, arguments));
  MEZZO_RETURN_IF_ERROR(builder.store(y, result));
  return builder.finish(implementation_name(desc.impl_info_str(), request, choice));
}

StatusOr<Forward::primitive_desc> forward_desc(const ConvGeometry& geometry, const Choice& choice,
                                               const MemoryDesc& bias, DType y_dtype) {
  MEZZO_ASSIGN_OR_RETURN(const dnnl::engine engine, cpu_engine());
  const Window& window = geometry.window;
  return attempt([&] {
    return Forward::primitive_desc(engine, dnnl::prop_kind::forward_training, kDirect,
                                   dense_desc(geometry.x, choice.compute_dtype, choice.layout),
                                   any_desc(geometry.w, choice.compute_dtype), bias,
                                   dense_desc(geometry.y, y_dtype, choice.layout), window.strides,
                                   window.dilations, window.pads_begin, window.pads_end,
                                   base_attributes());
  });
}

}  // namespace

StatusOr<KernelPtr> prepare_conv(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, {2, 3, 1, 1}));
  MEZZO_ASSIGN_OR_RETURN(const ConvGeometry geometry,
                         read_convolution(request.attributes, request.inputs[0], request.inputs[1],
                                          request.outputs[0]));
  MEZZO_RETURN_IF_ERROR(check_bias(request, geometry.y[1]));
  const ThreadScope threads(request.threads);
  return best_choice(request, 2, [&](const Choice& choice) -> StatusOr<KernelPtr> {
    MEZZO_ASSIGN_OR_RETURN(const auto desc,
                           forward_desc(geometry, choice, bias_desc(request, choice),
                                        choice.result_dtype(request.outputs[0].dtype)));
    MEZZO_ASSIGN_OR_RETURN(const Forward primitive, attempt([&] { return Forward(desc); }));
    const Operand weights = grouped(SequenceBuilder(request).input(1), geometry);
    return finish_forward(request, choice, weights, desc, primitive);
  });
}

StatusOr<KernelPtr> prepare_conv_grad_input(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, {2, 2, 1, 1}));
  MEZZO_ASSIGN_OR_RETURN(const ConvGeometry geometry,
                         read_convolution(request.attributes, request.outputs[0], request.inputs[1],
                                          request.inputs[0]));
  MEZZO_ASSIGN_OR_RETURN(const dnnl::engine engine, cpu_engine());
  const Window& window = geometry.window;
  const ThreadScope threads(request.threads);
  return best_choice(request, 2, [&](const Choice& choice) -> StatusOr<KernelPtr> {
    MEZZO_ASSIGN_OR_RETURN(const auto hint,
                           forward_desc(geometry, choice, {}, choice.compute_dtype));
    MEZZO_ASSIGN_OR_RETURN(
        const auto desc, attempt([&] {
          return GradInput::primitive_desc(
              engine, kDirect,
              dense_desc(geometry.x, choice.result_dtype(request.outputs[0].dtype), choice.layout),
              any_desc(geometry.w, choice.compute_dtype),
              dense_desc(geometry.y, choice.compute_dtype, choice.layout), window.strides,
              window.dilations, window.pads_begin, window.pads_end, hint, base_attributes());
        }));
    MEZZO_ASSIGN_OR_RETURN(const GradInput primitive, attempt([&] { return GradInput(desc); }));
    SequenceBuilder builder(request);
    MEZZO_ASSIGN_OR_RETURN(const Operand dy, builder.as(builder.input(0), desc.diff_dst_desc()));
    MEZZO_ASSIGN_OR_RETURN(const Operand w,
                           builder.as(grouped(builder.input(1), geometry), desc.weights_desc()));
    const Operand result = builder.output(0);
    const Operand dx = builder.place_for(result, desc.diff_src_desc());
    MEZZO_RETURN_IF_ERROR(
        builder.add(desc, primitive,
                    {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, dx}}));
    MEZZO_RETURN_IF_ERROR(builder.store(dx, result));
    return builder.finish(implementation_name(desc.impl_info_str(), request, choice));
  });
}

StatusOr<KernelPtr> prepare_conv_grad_weight(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, {2, 2, 1, 1}));
  MEZZO_ASSIGN_OR_RETURN(const ConvGeometry geometry,
                         read_convolution(request.attributes, request.inputs[1], request.outputs[0],
                                          request.inputs[0]));
  MEZZO_ASSIGN_OR_RETURN(const dnnl::engine engine, cpu_engine());
  const Window& window = geometry.window;
  const ThreadScope threads(request.threads);
  return best_choice(request, 2, [&](const Choice& choice) -> StatusOr<KernelPtr> {
    MEZZO_ASSIGN_OR_RETURN(const auto hint,
                           forward_desc(geometry, choice, {}, choice.compute_dtype));
    MEZZO_ASSIGN_OR_RETURN(
        const auto desc, attempt([&] {
          return GradWeight::primitive_desc(
              engine, kDirect, dense_desc(geometry.x, choice.compute_dtype, choice.layout),
              any_desc(geometry.w, choice.result_dtype(request.outputs[0].dtype)),
              dense_desc(geometry.y, choice.compute_dtype, choice.layout), window.strides,
              window.dilations, window.pads_begin, window.pads_end, hint, base_attributes());
        }));
    MEZZO_ASSIGN_OR_RETURN(const GradWeight primitive, attempt([&] { return GradWeight(desc); }));
    SequenceBuilder builder(request);
    MEZZO_ASSIGN_OR_RETURN(const Operand dy, builder.as(builder.input(0), desc.diff_dst_desc()));
    MEZZO_ASSIGN_OR_RETURN(const Operand x, builder.as(builder.input(1), desc.src_desc()));
    const Operand result = grouped(builder.output(0), geometry);
    const Operand dw = builder.place_for(result, desc.diff_weights_desc());
    MEZZO_RETURN_IF_ERROR(
        builder.add(desc, primitive,
                    {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_WEIGHTS, dw}}));
    MEZZO_RETURN_IF_ERROR(builder.store(dw, result));
    return builder.finish(implementation_name(desc.impl_info_str(), request, choice));
  });
}

// Described by the convolution from y to x: its weights C M/group K1.. are what ONNX gives, while
// the library names the dimensions group M/group C/group K1.., an exchange of two strides.
StatusOr<KernelPtr> prepare_conv_transpose(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, {2, 3, 1, 1}));
  MEZZO_ASSIGN_OR_RETURN(const ConvGeometry geometry,
                         read_convolution(request.attributes, request.outputs[0], request.inputs[1],
                                          request.inputs[0]));
  MEZZO_RETURN_IF_ERROR(check_bias(request, geometry.x[1]));
  MEZZO_ASSIGN_OR_RETURN(const dnnl::engine engine, cpu_engine());
  const std::size_t output_dim = geometry.group > 1 ? 1 : 0;
  Dims w_dims = geometry.w;
  Dims w_strides = grouped(SequenceBuilder(request).input(1), geometry).desc.get_strides();
  std::swap(w_dims[output_dim], w_dims[output_dim + 1]);
  std::swap(w_strides[output_dim], w_strides[output_dim + 1]);
  const Operand weights = {{Buffer::Place::kInput, 1},
                           {w_dims, library_type(request.inputs[1].dtype), w_strides}};
  const Window& window = geometry.window;
  const ThreadScope threads(request.threads);
  return best_choice(request, 2, [&](const Choice& choice) -> StatusOr<KernelPtr> {
    MEZZO_ASSIGN_OR_RETURN(
        const auto desc, attempt([&] {
          return Transpose::primitive_desc(
              engine, dnnl::prop_kind::forward_training, dnnl::algorithm::deconvolution_direct,
              dense_desc(geometry.y, choice.compute_dtype, choice.layout),
              any_desc(w_dims, choice.compute_dtype), bias_desc(request, choice),
              dense_desc(geometry.x, choice.result_dtype(request.outputs[0].dtype), choice.layout),
              window.strides, window.dilations, window.pads_begin, window.pads_end,
              base_attributes());
        }));
    MEZZO_ASSIGN_OR_RETURN(const Transpose primitive, attempt([&] { return Transpose(desc); }));
    return finish_forward(request, choice, weights, desc, primitive);
  });
}

}  // namespace mezzo::kernels::onednn
