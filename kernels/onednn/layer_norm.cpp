// LayerNormalization and its gradient.
//
// x, y, dy, dx [R, D]: D the product of the dims from `axis` on, R of those before. scale, bias,
// dscale, dbias [D]; mean, inv_std_dev [R]. Statistics, scale and bias are float32 inside.
//
// The gradient is left to own code unless all activations are bfloat16: 64x768 takes 10.4 us in
// float32, own code 7.4; 512x256 in bfloat16 takes 28 us, own code 38.
#include "compiler/support/text.h"
#include "kernels/onednn/choice.h"
#include "kernels/onednn/norm.h"
#include "kernels/onednn/sequence.h"
#include "kernels/onednn/statistics.h"

namespace mezzo::kernels::onednn {
namespace {

using KernelPtr = std::unique_ptr<Kernel>;
using Forward = dnnl::layer_normalization_forward;
using Backward = dnnl::layer_normalization_backward;

struct Rows {
  std::int64_t count = 1;
  std::int64_t elems = 1;  // of each
};

StatusOr<Rows> read_rows(const KernelRequest& request, const TensorDesc& x,
                         std::initializer_list<const TensorDesc*> others) {
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  std::int64_t axis = request.attributes.get_int("axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) {
    return invalid_argument("attribute 'axis' is out of range for rank " + std::to_string(rank));
  }
  if (x.elems() == 0) return unimplemented("empty tensors");
  for (const TensorDesc* other : others) {
    if (other->dims != x.dims) {
      return invalid_argument("expected equal dims, got " + format_dims(x.dims) + " and " +
                              format_dims(other->dims));
    }
    if (other->layout != Layout::kRowMajor) return unimplemented("channels-last operands");
  }
  if (x.layout != Layout::kRowMajor) return unimplemented("channels-last operands");
  Rows rows;
  for (std::int64_t i = 0; i < rank; ++i) {
    (i < axis ? rows.count : rows.elems) *= x.dims[static_cast<std::size_t>(i)];
  }
  return rows;
}

// Each activation keeps bfloat16 where it has it; float16 is cast.
MemoryDesc rows_desc(const Rows& rows, const TensorDesc& desc) {
  const bool bf16 = desc.dtype == DType::kBFloat16 && has_native_bf16();
  return dense_desc({rows.count, rows.elems}, bf16 ? DType::kBFloat16 : DType::kFloat32,
                    Layout::kRowMajor);
}

Operand as_rows(const Operand& operand, const Rows& rows) {
  return {operand.buffer,
          dense_desc({rows.count, rows.elems}, dtype_of(operand.desc), Layout::kRowMajor)};
}

dnnl::normalization_flags flags(bool has_bias) {
  const auto scale = dnnl::normalization_flags::use_scale;
  return has_bias ? scale | dnnl::normalization_flags::use_shift : scale;
}

StatusOr<Forward::primitive_desc> forward_desc(const Rows& rows, const MemoryDesc& x,
                                               const MemoryDesc& y, dnnl::prop_kind kind,
                                               float epsilon, bool has_bias) {
  MEZZO_ASSIGN_OR_RETURN(const dnnl::engine engine, cpu_engine());
  return attempt([&] {
    return Forward::primitive_desc(engine, kind, x, y, vector_desc(rows.count), epsilon,
                                   flags(has_bias), base_attributes());
  });
}

}  // namespace

StatusOr<KernelPtr> prepare_layer_norm(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, {2, 3, 1, 3}));
  MEZZO_ASSIGN_OR_RETURN(const Rows rows,
                         read_rows(request, request.inputs[0], {&request.outputs[0]}));
  const bool has_bias = request.inputs.size() > 2 && request.inputs[2].present();
  for (std::size_t i = 1; i < request.inputs.size(); ++i) {
    if (request.inputs[i].present() && request.inputs[i].elems() != rows.elems) {
      return unimplemented("a scale or bias that is broadcast");
    }
  }
  const bool has_statistics = wants(request, 1) || wants(request, 2);
  const auto epsilon = static_cast<float>(request.attributes.get_float("epsilon", 1e-5));
  const auto kind =
      has_statistics ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const ThreadScope threads(request.threads);
  MEZZO_ASSIGN_OR_RETURN(
      const auto desc, forward_desc(rows, rows_desc(rows, request.inputs[0]),
                                    rows_desc(rows, request.outputs[0]), kind, epsilon, has_bias));
  MEZZO_ASSIGN_OR_RETURN(const Forward primitive, attempt([&] { return Forward(desc); }));

  SequenceBuilder builder(request);
  MEZZO_ASSIGN_OR_RETURN(const Operand x,
                         builder.as(as_rows(builder.input(0), rows), desc.src_desc()));
  MEZZO_ASSIGN_OR_RETURN(const Operand scale, vector_input(builder, request, 1, rows.elems));
  const Operand result = as_rows(builder.output(0), rows);
  const Operand y = builder.place_for(result, desc.dst_desc());
  std::vector<std::pair<int, Operand>> arguments = {
      {DNNL_ARG_SRC, x}, {DNNL_ARG_SCALE, scale}, {DNNL_ARG_DST, y}};
  if (has_bias) {
    MEZZO_ASSIGN_OR_RETURN(const Operand bias, vector_input(builder, request, 2, rows.elems));
    arguments.emplace_back(DNNL_ARG_SHIFT, bias);
  }
  Operand mean;
  Operand variance;
  if (has_statistics) {
    mean = vector_place(builder, request, 1, rows.count);
    variance = builder.temporary(vector_desc(rows.count));
    arguments.emplace_back(DNNL_ARG_MEAN, mean);
    arguments.emplace_back(DNNL_ARG_VARIANCE, variance);
  }
  MEZZO_RETURN_IF_ERROR(builder.add(desc, primitive, arguments));
  MEZZO_RETURN_IF_ERROR(builder.store(y, result));
  MEZZO_RETURN_IF_ERROR(store_vector(builder, request, mean, 1, rows.count));
  if (wants(request, 2)) {
    const Operand inv_std = vector_place(builder, request, 2, rows.count);
    add_inv_std(builder, variance, inv_std, rows.count, epsilon);
    MEZZO_RETURN_IF_ERROR(store_vector(builder, request, inv_std, 2, rows.count));
  }
  const Choice choice{dtype_of(desc.src_desc()), Layout::kRowMajor};
  return builder.finish(implementation_name(desc.impl_info_str(), request, choice));
}

StatusOr<KernelPtr> prepare_layer_norm_grad(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, {5, 5, 1, 3}));
  MEZZO_ASSIGN_OR_RETURN(const Rows rows, read_rows(request, request.inputs[1],
                                                    {&request.inputs[0], &request.outputs[0]}));
  for (const TensorDesc* desc : {&request.inputs[0], &request.inputs[1], &request.outputs[0]}) {
    if (desc->dtype != DType::kBFloat16 || !has_native_bf16()) {
      return unimplemented("activations other than bfloat16: own code is faster");
    }
  }
  const ThreadScope threads(request.threads);
  MEZZO_ASSIGN_OR_RETURN(const dnnl::engine engine, cpu_engine());
  const MemoryDesc x_desc = rows_desc(rows, request.inputs[1]);
  const MemoryDesc dy_desc = rows_desc(rows, request.inputs[0]);
  const MemoryDesc dx_desc = rows_desc(rows, request.outputs[0]);
  MEZZO_ASSIGN_OR_RETURN(
      const auto hint, forward_desc(rows, x_desc, dy_desc, dnnl::prop_kind::forward_training, 0.0F,
                                    /*has_bias=*/true));
  MEZZO_ASSIGN_OR_RETURN(const auto desc, attempt([&] {
                           return Backward::primitive_desc(
                               engine, dnnl::prop_kind::backward, dx_desc, dy_desc, x_desc,
                               vector_desc(rows.count), 0.0F, flags(/*has_bias=*/true), hint,
                               base_attributes());
                         }));
  MEZZO_ASSIGN_OR_RETURN(const Backward primitive, attempt([&] { return Backward(desc); }));

  SequenceBuilder builder(request);
  MEZZO_ASSIGN_OR_RETURN(const Operand dy,
                         builder.as(as_rows(builder.input(0), rows), desc.diff_dst_desc()));
  MEZZO_ASSIGN_OR_RETURN(const Operand x,
                         builder.as(as_rows(builder.input(1), rows), desc.src_desc()));
  MEZZO_ASSIGN_OR_RETURN(const Operand scale, vector_input(builder, request, 2, rows.elems));
  MEZZO_ASSIGN_OR_RETURN(const Operand mean, vector_input(builder, request, 3, rows.count));
  MEZZO_ASSIGN_OR_RETURN(const Operand inv_std, vector_input(builder, request, 4, rows.count));
  const Operand variance = builder.temporary(vector_desc(rows.count));
  add_variance(builder, inv_std, variance, rows.count);
  const Operand result = as_rows(builder.output(0), rows);
  const Operand dx = builder.place_for(result, desc.diff_src_desc());
  const Operand dscale = vector_place(builder, request, 1, rows.elems);
  const Operand dbias = vector_place(builder, request, 2, rows.elems);
  // The library counts the shift among the operands, though the gradient does not depend on it.
  MEZZO_RETURN_IF_ERROR(builder.add(desc, primitive,
                                    {{DNNL_ARG_DIFF_DST, dy},
                                     {DNNL_ARG_SRC, x},
                                     {DNNL_ARG_SCALE, scale},
                                     {DNNL_ARG_SHIFT, scale},
                                     {DNNL_ARG_MEAN, mean},
                                     {DNNL_ARG_VARIANCE, variance},
                                     {DNNL_ARG_DIFF_SRC, dx},
                                     {DNNL_ARG_DIFF_SCALE, dscale},
                                     {DNNL_ARG_DIFF_SHIFT, dbias}}));
  MEZZO_RETURN_IF_ERROR(builder.store(dx, result));
  MEZZO_RETURN_IF_ERROR(store_vector(builder, request, dscale, 1, rows.elems));
  MEZZO_RETURN_IF_ERROR(store_vector(builder, request, dbias, 2, rows.elems));
  const Choice choice{dtype_of(desc.src_desc()), Layout::kRowMajor};
  return builder.finish(implementation_name(desc.impl_info_str(), request, choice));
}

}  // namespace mezzo::kernels::onednn
