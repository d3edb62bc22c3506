// BatchNormalization and LayerNormalization in training, forward and backward.
//
// Activations float32, float16 or bfloat16, all of one dtype; scale, bias and statistics float32.
// BatchNormalization: x, y, dy, dx N C D1.., channels last only (the library moves others there
// and back; own kernels do not need to). LayerNormalization: x M N with M the product of the dims
// before `axis`.
#include <utility>

#include "kernels/cuda/dnn_kernel.h"
#include "kernels/cuda/dnn_rows.h"
#include "kernels/cuda/dnn_statistics.h"

namespace mezzo::kernels::cuda::dnn {
namespace {

using KernelPtr = std::unique_ptr<Kernel>;

constexpr DType kStatistic = DType::kFloat32;
constexpr std::int64_t kLargestDim = std::int64_t{1} << 31;  // dims are 32-bit inside the library

// Operands from..to and results from..to are float32 where they are present.
Status expect_float32(std::span<const TensorDesc> descs, std::size_t from) {
  for (std::size_t i = from; i < descs.size(); ++i) {
    if (descs[i].present() && descs[i].dtype != kStatistic) {
      return unimplemented("scale, bias or statistics that are not float32");
    }
  }
  return ok_status();
}

Status check_activations(const TensorDesc& x, const TensorDesc& y) {
  if (!is_graph_dtype(x.dtype) || x.dtype != y.dtype) {
    return unimplemented("activations of several dtypes, or no floats");
  }
  if (x.elems() == 0) return unimplemented("empty tensors");
  for (const std::int64_t dim : x.dims) {
    if (dim >= kLargestDim) return unimplemented("dimensions beyond 2^31");
  }
  return ok_status();
}

// x's dims with two spatial dimensions at least; Unimplemented where it does not lie channels last.
StatusOr<Dims> batch_norm_dims(const TensorDesc& x) {
  if (x.dims.size() < 2 || x.dims.size() > 5) return unimplemented("rank outside 2 to 5");
  if (x.layout_matters() && x.layout != Layout::kChannelsLast) {
    return unimplemented("row-major activations: own kernels read them as they are");
  }
  Dims dims = x.dims;
  while (dims.size() < 4) dims.push_back(1);
  return dims;
}

Dims channel_dims(const Dims& dims) {
  Dims channels(dims.size(), 1);
  channels[1] = dims[1];
  return channels;
}

void add_running(KernelBuilder& builder, const KernelRequest& request, int mean, int inv_std) {
  const auto wants = [&](std::size_t i) {
    return request.outputs.size() > i && request.outputs[i].present();
  };
  if (!wants(1) && !wants(2)) return;
  RunningStatistics how;
  how.channels = request.inputs[0].dims[1];
  how.share = static_cast<float>(request.attributes.get_float("momentum", 0.9));
  how.epsilon = static_cast<float>(request.attributes.get_float("epsilon", 1e-5));
  const auto count = static_cast<double>(request.inputs[0].elems() / how.channels);
  if (request.attributes.get_int("unbiased_running_var", 0) != 0 && count > 1) {
    how.correction = static_cast<float>(count / (count - 1));
  }
  builder.then([how, mean, inv_std, wants_mean = wants(1), wants_variance = wants(2)](
                   const KernelArguments& arguments, std::span<void* const> buffers) {
    const auto statistic = [&](int i) {
      return static_cast<const float*>(buffers[static_cast<std::size_t>(i)]);
    };
    const auto input = [&](std::size_t i) {
      return static_cast<const float*>(arguments.inputs[i]);
    };
    const auto output = [&](std::size_t i, bool wanted) {
      return wanted ? static_cast<float*>(arguments.outputs[i]) : nullptr;
    };
    return update_running(how, statistic(mean), statistic(inv_std), input(3), input(4),
                          output(1, wants_mean), output(2, wants_variance), arguments.stream);
  });
}

// x as rows that are normalised: [product of the dims before axis, product of the others].
StatusOr<Dims> row_dims(const TensorDesc& x, const Attributes& attributes) {
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  std::int64_t axis = attributes.get_int("axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return invalid_argument("attribute 'axis' is out of range");
  if (x.layout_matters() && x.layout != Layout::kRowMajor) return unimplemented("channels last");
  Dims rows = {1, 1, 1, 1};
  for (std::int64_t i = 0; i < rank; ++i) {
    rows[i < axis ? 0 : 1] *= x.dims[static_cast<std::size_t>(i)];
  }
  if (rows[0] >= kLargestDim || rows[1] >= kLargestDim) {
    return unimplemented("dimensions beyond 2^31");
  }
  return rows;
}

// scale or bias has all elements of a row: it is not broadcast.
bool is_whole(const TensorDesc& desc, std::int64_t elems) {
  return desc.present() && desc.elems() == elems;
}

Node node(Op op, std::vector<int> operands, std::vector<int> results, double epsilon = 0.0) {
  Node made;
  made.op = op;
  made.operands = std::move(operands);
  made.results = std::move(results);
  made.scalar = epsilon;
  return made;
}

}  // namespace

StatusOr<KernelPtr> prepare_batch_norm(const KernelRequest& request) {
  if (request.attributes.get_int("training_mode", 0) == 0) {
    return unimplemented("inference: an elementwise operation, which own kernels do");
  }
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[0], request.outputs[0]));
  MEZZO_RETURN_IF_ERROR(expect_float32(request.inputs, 1));
  MEZZO_RETURN_IF_ERROR(expect_float32(request.outputs, 1));
  MEZZO_ASSIGN_OR_RETURN(const Dims dims, batch_norm_dims(request.inputs[0]));
  const Form form{Layout::kChannelsLast, request.inputs[0].dtype};
  const Form statistic{Layout::kChannelsLast, kStatistic};
  const Dims channels = channel_dims(dims);
  KernelBuilder builder(request);
  const int x = builder.operand(0, form, dims);
  const int scale = builder.operand(1, statistic, channels);
  const int bias = builder.operand(2, statistic, channels);
  const int y = builder.result(0, form, dims);
  const int mean = builder.result_or_scratch(3, statistic, channels);
  const int inv_std = builder.result_or_scratch(4, statistic, channels);
  builder.add(node(Op::kBatchNorm, {x, scale, bias}, {y, mean, inv_std},
                   request.attributes.get_float("epsilon", 1e-5)));
  add_running(builder, request, mean, inv_std);
  return builder.finish();
}

StatusOr<KernelPtr> prepare_batch_norm_grad(const KernelRequest& request) {
  if (!request.outputs[0].present()) return unimplemented("no dx");
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[0], request.outputs[0]));
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[1], request.outputs[0]));
  MEZZO_RETURN_IF_ERROR(expect_float32(request.inputs, 2));
  MEZZO_RETURN_IF_ERROR(expect_float32(request.outputs, 1));
  MEZZO_ASSIGN_OR_RETURN(const Dims dims, batch_norm_dims(request.inputs[1]));
  const Form form{Layout::kChannelsLast, request.inputs[0].dtype};
  const Form statistic{Layout::kChannelsLast, kStatistic};
  const Dims channels = channel_dims(dims);
  KernelBuilder builder(request);
  std::vector<int> operands = {builder.operand(0, form, dims), builder.operand(1, form, dims)};
  for (std::size_t i = 2; i < 5; ++i) operands.push_back(builder.operand(i, statistic, channels));
  std::vector<int> results = {builder.result(0, form, dims)};
  for (std::size_t i = 1; i < 3; ++i) {
    results.push_back(builder.result_or_scratch(i, statistic, channels));
  }
  builder.add(node(Op::kBatchNormGrad, std::move(operands), std::move(results)));
  return builder.finish();
}

StatusOr<KernelPtr> prepare_layer_norm(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[0], request.outputs[0]));
  MEZZO_RETURN_IF_ERROR(expect_float32(request.inputs, 1));
  MEZZO_RETURN_IF_ERROR(expect_float32(request.outputs, 1));
  MEZZO_ASSIGN_OR_RETURN(const Dims rows, row_dims(request.inputs[0], request.attributes));
  if (!is_whole(request.inputs[1], rows[1]) || request.inputs.size() < 3 ||
      !is_whole(request.inputs[2], rows[1])) {
    return unimplemented("no bias, or scale or bias that are broadcast");
  }
  const Form form{Layout::kRowMajor, request.inputs[0].dtype};
  const Form statistic{Layout::kRowMajor, kStatistic};
  const Dims line = {1, rows[1], 1, 1};
  const Dims per_row = {rows[0], 1, 1, 1};
  KernelBuilder builder(request);
  const int x = builder.operand(0, form, rows);
  const int scale = builder.operand(1, statistic, line);
  const int bias = builder.operand(2, statistic, line);
  const int y = builder.result(0, form, rows);
  const int mean = builder.result_or_scratch(1, statistic, per_row);
  const int inv_std = builder.result_or_scratch(2, statistic, per_row);
  builder.add(node(Op::kLayerNorm, {x, scale, bias}, {y, mean, inv_std},
                   request.attributes.get_float("epsilon", 1e-5)));
  return builder.finish();
}

StatusOr<KernelPtr> prepare_layer_norm_grad(const KernelRequest& request) {
  if (!request.outputs[0].present()) return unimplemented("no dx");
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[0], request.outputs[0]));
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[1], request.outputs[0]));
  MEZZO_RETURN_IF_ERROR(expect_float32(request.inputs, 2));
  MEZZO_RETURN_IF_ERROR(expect_float32(request.outputs, 1));
  MEZZO_ASSIGN_OR_RETURN(const Dims rows, row_dims(request.inputs[1], request.attributes));
  if (!is_whole(request.inputs[2], rows[1])) return unimplemented("a scale that is broadcast");
  const Form form{Layout::kRowMajor, request.inputs[0].dtype};
  const Form statistic{Layout::kRowMajor, kStatistic};
  const Dims line = {1, rows[1], 1, 1};
  const Dims per_row = {rows[0], 1, 1, 1};
  KernelBuilder builder(request);
  std::vector<int> operands = {builder.operand(0, form, rows), builder.operand(1, form, rows),
                               builder.operand(2, statistic, line),
                               builder.operand(3, statistic, per_row),
                               builder.operand(4, statistic, per_row)};
  std::vector<int> results = {builder.result(0, form, rows)};
  for (std::size_t i = 1; i < 3; ++i) {
    results.push_back(builder.result_or_scratch(i, statistic, line));
  }
  builder.add(node(Op::kLayerNormGrad, std::move(operands), std::move(results)));
  return builder.finish();
}

}  // namespace mezzo::kernels::cuda::dnn
