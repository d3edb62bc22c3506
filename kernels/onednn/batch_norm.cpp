// BatchNormalization, inference and training, and its gradient.
//
// x, y, dy, dx N C D1..; everything else [C], in float32 inside. Only channels-last activations of
// one dtype: for row-major ones (16x64x32x32 float32) the library takes 1844 us, with reorders 948,
// own code 178; channels last it takes 170 us in float32 and 75 in bfloat16, own code 178 and 214.
// With few channels it is slow (8x16x32x32 float32: 84 us, own code 9), so that forward is left to
// own code but for bfloat16 of 64 channels or more.
#include "compiler/support/text.h"
#include "kernels/onednn/choice.h"
#include "kernels/onednn/norm.h"
#include "kernels/onednn/sequence.h"
#include "kernels/onednn/statistics.h"

namespace mezzo::kernels::onednn {
namespace {

using KernelPtr = std::unique_ptr<Kernel>;
using Forward = dnnl::batch_normalization_forward;
using Backward = dnnl::batch_normalization_backward;

const auto kScaleShift =
    dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

// x and y (or dy and dx): equal dims of rank 2 to 5, not empty.
Status check_activations(const TensorDesc& x, const TensorDesc& y) {
  if (x.dims != y.dims) {
    return invalid_argument("expected equal dims, got " + format_dims(x.dims) + " and " +
                            format_dims(y.dims));
  }
  if (x.dims.size() < 2 || x.dims.size() > 5) return unimplemented("rank outside 2 to 5");
  return x.elems() == 0 ? unimplemented("empty tensors") : ok_status();
}

constexpr std::int64_t kManyChannels = 64;

Status check_forward(const TensorDesc& x) {
  if (x.dtype == DType::kBFloat16 && x.dims[1] >= kManyChannels) return ok_status();
  return unimplemented("float32, or few channels: own code is faster");
}

StatusOr<Forward::primitive_desc> forward_desc(const MemoryDesc& x, dnnl::prop_kind kind,
                                               float epsilon, dnnl::normalization_flags flags) {
  MEZZO_ASSIGN_OR_RETURN(const dnnl::engine engine, cpu_engine());
  return attempt([&] {
    return Forward::primitive_desc(engine, kind, x, x, epsilon, flags, base_attributes());
  });
}

// Results 1 to 4 of a training step from the batch's statistics.
Status add_training_results(SequenceBuilder& builder, const KernelRequest& request,
                            const Operand& mean, const Operand& variance, float epsilon) {
  const std::int64_t channels = request.inputs[0].dims[1];
  const double share = request.attributes.get_float("momentum", 0.9);
  const auto count = static_cast<double>(request.inputs[0].elems() / channels);
  const bool unbiased = request.attributes.get_int("unbiased_running_var", 0) == 1 && count > 1;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (!wants(request, i)) continue;
    MEZZO_ASSIGN_OR_RETURN(const Operand old, vector_input(builder, request, i + 2, channels));
    const Operand running = vector_place(builder, request, i, channels);
    const double correction = unbiased && i == 2 ? count / (count - 1) : 1.0;
    add_running(builder, old, i == 1 ? mean : variance, running, channels,
                static_cast<float>(share), static_cast<float>((1.0 - share) * correction));
    MEZZO_RETURN_IF_ERROR(store_vector(builder, request, running, i, channels));
  }
  MEZZO_RETURN_IF_ERROR(store_vector(builder, request, mean, 3, channels));
  if (!wants(request, 4)) return ok_status();
  const Operand inv_std = vector_place(builder, request, 4, channels);
  add_inv_std(builder, variance, inv_std, channels, epsilon);
  return store_vector(builder, request, inv_std, 4, channels);
}

}  // namespace

StatusOr<KernelPtr> prepare_batch_norm(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, {5, 5, 1, 5}));
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[0], request.outputs[0]));
  const bool training = request.attributes.get_int("training_mode", 0) != 0;
  if (!training && request.outputs.size() > 1) {
    return invalid_argument("only training_mode 1 has more than one result");
  }
  const auto epsilon = static_cast<float>(request.attributes.get_float("epsilon", 1e-5));
  MEZZO_RETURN_IF_ERROR(check_direct({&request.inputs[0], &request.outputs[0]}));
  MEZZO_RETURN_IF_ERROR(check_forward(request.inputs[0]));
  const Choice choice{request.inputs[0].dtype, Layout::kChannelsLast};
  const std::int64_t channels = request.inputs[0].dims[1];
  const MemoryDesc x_desc = dense_desc(request.inputs[0].dims, choice.compute_dtype, choice.layout);
  const ThreadScope threads(request.threads);
  MEZZO_ASSIGN_OR_RETURN(
      const auto desc,
      training ? forward_desc(x_desc, dnnl::prop_kind::forward_training, epsilon, kScaleShift)
               : forward_desc(x_desc, dnnl::prop_kind::forward_inference, epsilon,
                              kScaleShift | dnnl::normalization_flags::use_global_stats));
  MEZZO_ASSIGN_OR_RETURN(const Forward primitive, attempt([&] { return Forward(desc); }));

  SequenceBuilder builder(request);
  MEZZO_ASSIGN_OR_RETURN(const Operand x, builder.as(builder.input(0), x_desc));
  MEZZO_ASSIGN_OR_RETURN(const Operand scale, vector_input(builder, request, 1, channels));
  MEZZO_ASSIGN_OR_RETURN(const Operand bias, vector_input(builder, request, 2, channels));
  Operand mean = training ? vector_place(builder, request, 3, channels) : Operand{};
  Operand variance = training ? builder.temporary(vector_desc(channels)) : Operand{};
  if (!training) {
    MEZZO_ASSIGN_OR_RETURN(mean, vector_input(builder, request, 3, channels));
    MEZZO_ASSIGN_OR_RETURN(variance, vector_input(builder, request, 4, channels));
  }
  const Operand result = builder.output(0);
  const Operand y = builder.place_for(result, x_desc);
  MEZZO_RETURN_IF_ERROR(builder.add(desc, primitive,
                                    {{DNNL_ARG_SRC, x},
                                     {DNNL_ARG_SCALE, scale},
                                     {DNNL_ARG_SHIFT, bias},
                                     {DNNL_ARG_MEAN, mean},
                                     {DNNL_ARG_VARIANCE, variance},
                                     {DNNL_ARG_DST, y}}));
  MEZZO_RETURN_IF_ERROR(builder.store(y, result));
  if (training) {
    MEZZO_RETURN_IF_ERROR(add_training_results(builder, request, mean, variance, epsilon));
  }
  return builder.finish(implementation_name(desc.impl_info_str(), request, choice));
}

StatusOr<KernelPtr> prepare_batch_norm_grad(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, {5, 5, 1, 3}));
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[0], request.inputs[1]));
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[1], request.outputs[0]));
  MEZZO_RETURN_IF_ERROR(
      check_direct({&request.inputs[0], &request.inputs[1], &request.outputs[0]}));
  const Choice choice{request.inputs[0].dtype, Layout::kChannelsLast};
  const std::int64_t channels = request.inputs[1].dims[1];
  const MemoryDesc x_desc = dense_desc(request.inputs[1].dims, choice.compute_dtype, choice.layout);
  const ThreadScope threads(request.threads);
  MEZZO_ASSIGN_OR_RETURN(const dnnl::engine engine, cpu_engine());
  MEZZO_ASSIGN_OR_RETURN(
      const auto hint, forward_desc(x_desc, dnnl::prop_kind::forward_training, 0.0F, kScaleShift));
  MEZZO_ASSIGN_OR_RETURN(const auto desc, attempt([&] {
                           return Backward::primitive_desc(engine, dnnl::prop_kind::backward,
                                                           x_desc, x_desc, x_desc, 0.0F,
                                                           kScaleShift, hint, base_attributes());
                         }));
  MEZZO_ASSIGN_OR_RETURN(const Backward primitive, attempt([&] { return Backward(desc); }));

  SequenceBuilder builder(request);
  MEZZO_ASSIGN_OR_RETURN(const Operand dy, builder.as(builder.input(0), x_desc));
  MEZZO_ASSIGN_OR_RETURN(const Operand x, builder.as(builder.input(1), x_desc));
  MEZZO_ASSIGN_OR_RETURN(const Operand scale, vector_input(builder, request, 2, channels));
  MEZZO_ASSIGN_OR_RETURN(const Operand mean, vector_input(builder, request, 3, channels));
  MEZZO_ASSIGN_OR_RETURN(const Operand inv_std, vector_input(builder, request, 4, channels));
  const Operand variance = builder.temporary(vector_desc(channels));
  add_variance(builder, inv_std, variance, channels);
  const Operand result = builder.output(0);
  const Operand dx = builder.place_for(result, x_desc);
  const Operand dscale = vector_place(builder, request, 1, channels);
  const Operand dbias = vector_place(builder, request, 2, channels);
  MEZZO_RETURN_IF_ERROR(builder.add(desc, primitive,
                                    {{DNNL_ARG_DIFF_DST, dy},
                                     {DNNL_ARG_SRC, x},
                                     {DNNL_ARG_SCALE, scale},
                                     {DNNL_ARG_MEAN, mean},
                                     {DNNL_ARG_VARIANCE, variance},
                                     {DNNL_ARG_DIFF_SRC, dx},
                                     {DNNL_ARG_DIFF_SCALE, dscale},
                                     {DNNL_ARG_DIFF_SHIFT, dbias}}));
  MEZZO_RETURN_IF_ERROR(builder.store(dx, result));
  MEZZO_RETURN_IF_ERROR(store_vector(builder, request, dscale, 1, channels));
  MEZZO_RETURN_IF_ERROR(store_vector(builder, request, dbias, 2, channels));
  return builder.finish(implementation_name(desc.impl_info_str(), request, choice));
}

}  // namespace mezzo::kernels::onednn
