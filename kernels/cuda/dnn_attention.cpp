// ScaledDotProductAttention and its gradient: the library's flash attention.
//
// q B H T D, k B G S D, v B G S E, y B H T E, each with heads behind tokens where tokens_first says
// so, all of one dtype of float16 and bfloat16; bias
// broadcast to B H T S, of any of the three dtypes; lse B H T float32, the logarithm of the sum of
// the exponentials of a query's scores. Scores are not stored.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "kernels/cuda/dnn_kernel.h"
#include "kernels/cuda/dnn_mask.h"
#include "kernels/cuda/dnn_rows.h"

namespace mezzo::kernels::cuda::dnn {
namespace {

using KernelPtr = std::unique_ptr<Kernel>;

std::int64_t* at_offset(const KernelArguments& arguments, std::size_t offset) {
  return reinterpret_cast<std::int64_t*>(static_cast<std::byte*>(arguments.workspace) + offset);
}

// How an operand or result lies: its dims with heads in front of tokens, and strides in elements.
struct Lying {
  Dims dims, strides;
};

Lying lying(const KernelRequest& request, const TensorDesc& desc, std::int64_t bit) {
  const std::int64_t bits = request.attributes.get_int("tokens_first", 0);
  const auto dims = heads_first(desc, bits, bit);
  const AttentionSteps steps = attention_steps(dims[1], dims[2], dims[3], (bits & bit) != 0);
  return {Dims(dims.begin(), dims.end()), {steps.batch, steps.head, steps.row, 1}};
}

int operand(KernelBuilder& builder, const KernelRequest& request, std::size_t i, std::int64_t bit) {
  const Lying how = lying(request, request.inputs[i], bit);
  return builder.operand_with_strides(i, how.dims, how.strides);
}

// Result i, of the dims of `like`.
int result(KernelBuilder& builder, const KernelRequest& request, std::size_t i,
           const TensorDesc& like, std::int64_t bit) {
  const Lying how = lying(request, like, bit);
  return builder.result_with_strides(i, like.dtype, how.dims, how.strides);
}

// The four dims of the scores. `q`: place of the queries.
Dims score_dims(const KernelRequest& request, std::size_t q) {
  const Dims queries = lying(request, request.inputs[q], attention::kQueriesSo).dims;
  const Dims keys = lying(request, request.inputs[q + 1], attention::kKeysSo).dims;
  return {queries[0], queries[1], queries[2], keys[2]};
}

Status check_operands(const KernelRequest& request, std::size_t q, std::size_t lse) {
  const DType dtype = request.inputs[q].dtype;
  if (dtype != DType::kFloat16 && dtype != DType::kBFloat16) {
    return unimplemented("operands that are not float16 or bfloat16");
  }
  const auto low = [&](const TensorDesc& desc) { return desc.dtype == dtype; };
  if (!std::all_of(request.inputs.begin(),
                   request.inputs.begin() + static_cast<std::ptrdiff_t>(std::min(lse, q + 3)),
                   low)) {
    return unimplemented("operands of several dtypes");
  }
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorDesc& desc = request.inputs[i];
    if (!desc.present()) continue;
    if (desc.elems() == 0) return unimplemented("empty tensors");
    if (desc.layout == Layout::kChannelsLast && desc.layout_matters())
      return unimplemented("channels-last operands");
  }
  for (const TensorDesc& desc : request.outputs) {
    if (desc.present() && desc.layout == Layout::kChannelsLast && desc.layout_matters())
      return unimplemented("channels-last results");
  }
  return ok_status();
}

// The bias without -infinity in the workspace; queries that share a row of it read it with a stride
// of 0.
struct Bias {
  int tensor = kAbsent;
  BiasRows rows;
  std::size_t first_seen = 0;  // offset in the workspace
};

StatusOr<Bias> add_bias(KernelBuilder& builder, const KernelRequest& request, std::size_t i,
                        const Dims& scores, bool wants_first_seen) {
  const TensorDesc& desc = request.inputs[i];
  if (!is_graph_dtype(desc.dtype)) return unimplemented("a bias that is no float");
  Dims dims = desc.dims;
  if (dims.size() > 4) return unimplemented("a bias of more than 4 dimensions");
  dims.insert(dims.begin(), 4 - dims.size(), 1);
  if (dims[3] != scores[3]) return unimplemented("a bias that all keys share");
  Dims strides = dense_strides(dims, Layout::kRowMajor);
  Bias bias;
  bias.rows = {dims[0] * dims[1] * dims[2], dims[3], {}, desc.dtype};
  for (std::size_t d = 0; d < 3; ++d) {
    bias.rows.steps[d] = dims[d] == 1 ? 0 : strides[d] / dims[3];
  }
  if (dims[2] != scores[2]) {
    dims[2] = scores[2];
    strides[2] = 0;
  }
  bias.tensor = builder.scratch({DType::kFloat32, dims, strides});
  if (wants_first_seen) {
    bias.first_seen =
        builder.reserve(static_cast<std::size_t>(bias.rows.rows) * sizeof(std::int64_t));
  }
  builder.before([bias, i, wants_first_seen](const KernelArguments& arguments,
                                             std::span<void* const> buffers) {
    return clean_bias(bias.rows, arguments.inputs[i],
                      static_cast<float*>(buffers[static_cast<std::size_t>(bias.tensor)]),
                      wants_first_seen ? at_offset(arguments, bias.first_seen) : nullptr,
                      arguments.stream);
  });
  return bias;
}

// Gives the queries that the bias leaves nothing to see their results.
void blank_after(KernelBuilder& builder, const KernelRequest& request, const Bias& bias,
                 const Node& attention, const Dims& scores) {
  const Queries how{scores[0],
                    scores[1],
                    scores[2],
                    scores[3],
                    request.inputs[2].dims[3],
                    attention.causal,
                    request.inputs[0].dtype,
                    attention_shape(request).y};
  builder.then_first([bias, how, y = attention.results[0], lse = attention.results[1]](
                         const KernelArguments& arguments, std::span<void* const> buffers) {
    return blank_blind_queries(
        bias.rows, how, at_offset(arguments, bias.first_seen), buffers[static_cast<std::size_t>(y)],
        static_cast<float*>(buffers[static_cast<std::size_t>(lse)]), arguments.stream);
  });
}

// lse with such queries' -infinity out of the way.
int add_raised_lse(KernelBuilder& builder, std::size_t i, const Dims& dims) {
  const int raised =
      builder.scratch({DType::kFloat32, dims, dense_strides(dims, Layout::kRowMajor)});
  builder.before([i, raised, count = dims[0] * dims[1] * dims[2]](const KernelArguments& arguments,
                                                                  std::span<void* const> buffers) {
    return raise_lse(count, static_cast<const float*>(arguments.inputs[i]),
                     static_cast<float*>(buffers[static_cast<std::size_t>(raised)]),
                     arguments.stream);
  });
  return raised;
}

Node attention_node(const KernelRequest& request, Op op, std::int64_t head_size) {
  Node made;
  made.op = op;
  made.scalar =
      request.attributes.get_float("scale", 1.0 / std::sqrt(static_cast<double>(head_size)));
  made.causal = request.attributes.get_int("causal", 0) != 0;
  return made;
}

}  // namespace

StatusOr<KernelPtr> prepare_attention(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, 0, 3));
  const DType dtype = request.inputs[0].dtype;
  const bool has_lse = request.outputs.size() > 1 && request.outputs[1].present();
  if (request.outputs[0].dtype != dtype ||
      (has_lse && request.outputs[1].dtype != DType::kFloat32)) {
    return unimplemented("a result of another dtype");
  }
  const Dims scores = score_dims(request, 0);
  KernelBuilder builder(request);
  Node attention = attention_node(request, Op::kAttention, request.inputs[0].dims[3]);
  attention.operands = {operand(builder, request, 0, attention::kQueriesSo),
                        operand(builder, request, 1, attention::kKeysSo),
                        operand(builder, request, 2, attention::kValuesSo)};
  const bool has_bias = request.inputs.size() > 3 && request.inputs[3].present();
  Bias bias;
  if (has_bias) {
    MEZZO_ASSIGN_OR_RETURN(bias, add_bias(builder, request, 3, scores, true));
    attention.operands.push_back(bias.tensor);
  }
  attention.results = {result(builder, request, 0, request.outputs[0], attention::kResultSo),
                       builder.result_or_scratch(1, {Layout::kRowMajor, DType::kFloat32},
                                                 {scores[0], scores[1], scores[2], 1})};
  if (has_bias) blank_after(builder, request, bias, attention, scores);
  builder.add(std::move(attention));
  return builder.finish();
}

// Operands dy, q, k, v, bias?, y, lse.
StatusOr<KernelPtr> prepare_attention_grad(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, 1, 4));
  const DType dtype = request.inputs[1].dtype;
  if (request.inputs[5].dtype != dtype || request.inputs[6].dtype != DType::kFloat32) {
    return unimplemented("operands of several dtypes");
  }
  for (const TensorDesc& result : request.outputs) {
    if (result.present() && result.dtype != dtype) {
      return unimplemented("a result of another dtype");
    }
  }
  const Dims scores = score_dims(request, 1);
  KernelBuilder builder(request);
  Node attention = attention_node(request, Op::kAttentionGrad, request.inputs[1].dims[3]);
  attention.operands = {operand(builder, request, attention::kDy, attention::kResultSo),
                        operand(builder, request, attention::kQ, attention::kQueriesSo),
                        operand(builder, request, attention::kK, attention::kKeysSo),
                        operand(builder, request, attention::kV, attention::kValuesSo),
                        operand(builder, request, attention::kY, attention::kResultSo)};
  const Dims per_query = {scores[0], scores[1], scores[2], 1};
  if (request.inputs[4].present()) {
    attention.operands.push_back(add_raised_lse(builder, 6, per_query));
    MEZZO_ASSIGN_OR_RETURN(const Bias bias, add_bias(builder, request, 4, scores, false));
    attention.operands.push_back(bias.tensor);
  } else {
    attention.operands.push_back(
        builder.operand(6, {Layout::kRowMajor, DType::kFloat32}, per_query));
  }
  attention.results = {
      result(builder, request, 0, request.inputs[attention::kQ], attention::kQueriesSo),
      result(builder, request, 1, request.inputs[attention::kK], attention::kKeysSo),
      result(builder, request, 2, request.inputs[attention::kV], attention::kValuesSo)};
  builder.add(std::move(attention));
  return builder.finish();
}

}  // namespace mezzo::kernels::cuda::dnn
