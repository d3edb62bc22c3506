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

Status check_forward(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[0], request.outputs[0]));
  MEZZO_RETURN_IF_ERROR(expect_float32(request.inputs, 1));
  return expect_float32(request.outputs, 1);
}

Status check_gradient(const KernelRequest& request) {
  if (!request.outputs[0].present()) return unimplemented("no dx");
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[0], request.outputs[0]));
  MEZZO_RETURN_IF_ERROR(check_activations(request.inputs[1], request.outputs[0]));
  MEZZO_RETURN_IF_ERROR(expect_float32(request.inputs, 2));
  return expect_float32(request.outputs, 1);
}

// How the graph's tensors lie: activations, scale and bias, mean and inv_std.
struct Lying {
  Layout layout = Layout::kRowMajor;
  Dims activations, factors, statistics;
};

// Two spatial dimensions at least; Unimplemented where x does not lie channels last.
StatusOr<Lying> batch_norm_lying(const TensorDesc& x) {
  if (x.dims.size() < 2 || x.dims.size() > 5) return unimplemented("rank outside 2 to 5");
  if (x.layout_matters() && x.layout != Layout::kChannelsLast) {
    return unimplemented("row-major activations: own kernels read them as they are");
  }
  Dims dims = x.dims;
  while (dims.size() < 4) dims.push_back(1);
  Dims channels(dims.size(), 1);
  channels[1] = dims[1];
  return Lying{Layout::kChannelsLast, dims, channels, channels};
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
StatusOr<Lying> layer_norm_lying(const TensorDesc& x, const Attributes& attributes) {
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  std::int64_t axis = attributes.get_int("axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return invalid_argument("attribute 'axis' is out of range");
  if (x.layout_matters() && x.layout != Layout::kRowMajor) return unimplemented("channels last");
  std::int64_t rows = 1, length = 1;
  for (std::int64_t i = 0; i < rank; ++i) {
    (i < axis ? rows : length) *= x.dims[static_cast<std::size_t>(i)];
  }
  if (rows >= kLargestDim || length >= kLargestDim) return unimplemented("dimensions beyond 2^31");
  return Lying{Layout::kRowMajor, {rows, length, 1, 1}, {1, length, 1, 1}, {rows, 1, 1, 1}};
}

// scale or bias has all elements of a row: it is not broadcast.
bool is_whole(const TensorDesc& desc, std::int64_t elems) {
  return desc.present() && desc.elems() == elems;
}

// The two results that are statistics.
struct Statistics {
  int mean, inv_std;
};

// x, scale, bias -> y, and result `first` and the one after it.
Statistics add_forward(KernelBuilder& builder, const KernelRequest& request, Op op,
                       const Lying& how, std::size_t first) {
  const Form form{how.layout, request.inputs[0].dtype}, statistic{how.layout, kStatistic};
  Node norm;
  norm.op = op;
  norm.scalar = request.attributes.get_float("epsilon", 1e-5);
  norm.operands = {builder.operand(0, form, how.activations),
                   builder.operand(1, statistic, how.factors),
                   builder.operand(2, statistic, how.factors)};
  const int y = builder.result(0, form, how.activations);
  const Statistics made = {builder.result_or_scratch(first, statistic, how.statistics),
                           builder.result_or_scratch(first + 1, statistic, how.statistics)};
  norm.results = {y, made.mean, made.inv_std};
  builder.add(std::move(norm));
  return made;
}

// dy, x, scale, mean, inv_std -> dx, dscale, dbias.
StatusOr<KernelPtr> prepare_gradient(const KernelRequest& request, Op op, const Lying& how) {
  const Form form{how.layout, request.inputs[0].dtype}, statistic{how.layout, kStatistic};
  KernelBuilder builder(request);
  Node norm;
  norm.op = op;
  norm.operands = {
      builder.operand(0, form, how.activations), builder.operand(1, form, how.activations),
      builder.operand(2, statistic, how.factors), builder.operand(3, statistic, how.statistics),
      builder.operand(4, statistic, how.statistics)};
  norm.results = {builder.result(0, form, how.activations),
                  builder.result_or_scratch(1, statistic, how.factors),
                  builder.result_or_scratch(2, statistic, how.factors)};
  builder.add(std::move(norm));
  return builder.finish();
}

}  // namespace

StatusOr<KernelPtr> prepare_batch_norm(const KernelRequest& request) {
  if (request.attributes.get_int("training_mode", 0) == 0) {
    return unimplemented("inference: an elementwise operation, which own kernels do");
  }
  MEZZO_RETURN_IF_ERROR(check_forward(request));
  MEZZO_ASSIGN_OR_RETURN(const Lying how, batch_norm_lying(request.inputs[0]));
  KernelBuilder builder(request);
  const Statistics made = add_forward(builder, request, Op::kBatchNorm, how, 3);
  add_running(builder, request, made.mean, made.inv_std);
  return builder.finish();
}

StatusOr<KernelPtr> prepare_batch_norm_grad(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_gradient(request));
  MEZZO_ASSIGN_OR_RETURN(const Lying how, batch_norm_lying(request.inputs[1]));
  return prepare_gradient(request, Op::kBatchNormGrad, how);
}

StatusOr<KernelPtr> prepare_layer_norm(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_forward(request));
  MEZZO_ASSIGN_OR_RETURN(const Lying how, layer_norm_lying(request.inputs[0], request.attributes));
  const std::int64_t length = how.factors[1];
  if (!is_whole(request.inputs[1], length) || request.inputs.size() < 3 ||
      !is_whole(request.inputs[2], length)) {
    return unimplemented("no bias, or scale or bias that are broadcast");
  }
  KernelBuilder builder(request);
  add_forward(builder, request, Op::kLayerNorm, how, 1);
  return builder.finish();
}

StatusOr<KernelPtr> prepare_layer_norm_grad(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_gradient(request));
  MEZZO_ASSIGN_OR_RETURN(const Lying how, layer_norm_lying(request.inputs[1], request.attributes));
  if (!is_whole(request.inputs[2], how.factors[1])) {
    return unimplemented("a scale that is broadcast");
  }
  return prepare_gradient(request, Op::kLayerNormGrad, how);
}

}  // namespace mezzo::kernels::cuda::dnn
