// Conv, its gradients and ConvTranspose.
//
// x N C D1.., w M C/g K1.., b M, y N M E1..; dx, dw like x, w. Results are overwritten. One spatial
// dimension is computed as two.
//
// The library wants all tensors of a graph in one layout and, without more ado, one dtype. It has
// engines for float16 operands with a float32 result, or with a bias, where the tensors lie
// channels last; so operands are moved there when they do not. What it has for no layout, such as
// the float32 gradient of a depthwise convolution's float16 weights, is computed from operands
// widened to float32: their 11 significant bits are exact in TF32, Tensor Cores included.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cuda/dnn_kernel.h"
#include "kernels/cuda/dnn_rearrange.h"
#include "kernels/cuda/dnn_rows.h"

namespace mezzo::kernels::cuda::dnn {
namespace {

using KernelPtr = std::unique_ptr<Kernel>;

// A convolution y = conv(x, w): which of the three is the graph's result, and where the request has
// them. What is an operand counts from 0 in the request's operands.
struct Problem {
  Op op = Op::kConv;
  Dims x, w, y;
  Node window;                      // pads, strides, dilations
  std::optional<std::size_t> bias;  // operand of the request
  DType result_dtype = DType::kNone;
  bool low_operands = false;          // both float16, or both bfloat16
  Layout layout = Layout::kRowMajor;  // of the activations
};

// Puts a dimension of 1 in front of a single spatial one.
void make_two_dimensional(Problem& problem) {
  const auto widen = [](Dims& dims, std::ptrdiff_t at, std::int64_t value) {
    dims.insert(dims.begin() + at, value);
  };
  if (problem.x.size() != 3) return;
  for (Dims* dims : {&problem.x, &problem.w, &problem.y}) widen(*dims, 2, 1);
  widen(problem.window.strides, 0, 1);
  widen(problem.window.dilations, 0, 1);
  widen(problem.window.pads_begin, 0, 0);
  widen(problem.window.pads_end, 0, 0);
}

Status read_window(const Attributes& attributes, Problem& problem) {
  const std::size_t count = problem.x.size() - 2;
  const std::string auto_pad = attributes.get_string("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET" && auto_pad != "VALID") {
    return unimplemented("auto_pad " + auto_pad + " that is not resolved to pads");
  }
  problem.window.strides = attributes.get_ints("strides", Dims(count, 1));
  problem.window.dilations = attributes.get_ints("dilations", Dims(count, 1));
  const Dims pads = attributes.get_ints("pads", Dims(2 * count, 0));
  if (problem.window.strides.size() != count || problem.window.dilations.size() != count ||
      pads.size() != 2 * count) {
    return invalid_argument("strides, dilations and pads do not fit the spatial dimensions");
  }
  if (*std::min_element(pads.begin(), pads.end()) < 0) return unimplemented("negative pads");
  const auto half = pads.begin() + static_cast<std::ptrdiff_t>(count);
  problem.window.pads_begin.assign(pads.begin(), half);
  problem.window.pads_end.assign(half, pads.end());
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t extent = (problem.w[i + 2] - 1) * problem.window.dilations[i] + 1;
    const std::int64_t room = problem.x[i + 2] + pads[i] + pads[i + count] - extent;
    if (room < 0 || room / problem.window.strides[i] + 1 != problem.y[i + 2]) {
      return unimplemented("more positions than windows");
    }
  }
  return ok_status();
}

// Reads the window and the dtypes for x, w and y as descriptions of the request.
StatusOr<Problem> read_problem(const KernelRequest& request, Op op, const TensorDesc& x,
                               const TensorDesc& w, const TensorDesc& y) {
  if (x.dims.size() < 3 || x.dims.size() > 5) return unimplemented("rank outside 3 to 5");
  if (x.elems() == 0 || w.elems() == 0 || y.elems() == 0) return unimplemented("empty tensors");
  Problem problem;
  problem.op = op;
  problem.x = x.dims;
  problem.w = w.dims;
  problem.y = y.dims;
  MEZZO_RETURN_IF_ERROR(read_window(request.attributes, problem));
  make_two_dimensional(problem);
  for (const TensorDesc* desc : {&request.inputs[0], &request.inputs[1], &request.outputs[0]}) {
    if (!is_graph_dtype(desc->dtype)) return unimplemented("operands that are no floats");
    if (desc != &w && desc->layout_matters()) problem.layout = desc->layout;
  }
  problem.low_operands = request.inputs[0].dtype == request.inputs[1].dtype &&
                         request.inputs[0].dtype != DType::kFloat32;
  problem.result_dtype = request.outputs[0].dtype;
  if (request.inputs.size() > 2 && request.inputs[2].present()) {
    problem.bias = 2;
    if (!is_graph_dtype(request.inputs[2].dtype)) return unimplemented("a bias that is no float");
  }
  return problem;
}

const Dims& dims_of_first(const Problem& problem) {
  return problem.op == Op::kConv ? problem.x : problem.y;
}
const Dims& dims_of_second(const Problem& problem) {
  return problem.op == Op::kConvGradWeight ? problem.x : problem.w;
}
const Dims& dims_of_result(const Problem& problem) {
  return problem.op == Op::kConv            ? problem.y
         : problem.op == Op::kConvGradInput ? problem.x
                                            : problem.w;
}

// Adds the bias to the graph's float32 result, before that is moved to where it is wanted.
void add_bias_after(KernelBuilder& builder, const KernelRequest& request, const Problem& problem,
                    Layout layout, int result) {
  const Dims& dims = dims_of_result(problem);
  ChannelBias how{dims[0], dims[1], 1, layout, request.inputs[*problem.bias].dtype};
  for (std::size_t i = 2; i < dims.size(); ++i) how.places *= dims[i];
  builder.then_first([how, bias = *problem.bias, result](const KernelArguments& arguments,
                                                         std::span<void* const> buffers) {
    return add_channel_bias(how, arguments.inputs[bias],
                            static_cast<float*>(buffers[static_cast<std::size_t>(result)]),
                            arguments.stream);
  });
}

// The graph with its tensors in `form`: the convolution, then the bias, then the result's dtype.
StatusOr<KernelPtr> prepare_in_form(const KernelRequest& request, const Problem& problem,
                                    const Form& form, bool bias_apart = false) {
  KernelBuilder builder(request);
  Node convolution = problem.window;
  convolution.op = problem.op;
  convolution.operands = {builder.operand(0, form, dims_of_first(problem)),
                          builder.operand(1, form, dims_of_second(problem))};
  const Dims& dims = dims_of_result(problem);
  // A float32 graph keeps to float32; the one rounding is done when the result is moved.
  const bool cast = form.dtype != DType::kFloat32 && form.dtype != problem.result_dtype;
  const Form result_form{form.layout, cast ? problem.result_dtype : form.dtype};
  const int result = builder.result(0, result_form, dims);
  const bool bias_inside = problem.bias.has_value() && !bias_apart;
  int made = bias_inside || cast ? builder.internal(dims, form.layout) : result;
  convolution.results = {made};
  builder.add(std::move(convolution));
  if (bias_inside) {
    Dims channels(dims.size(), 1);
    channels[1] = dims[1];
    const int bias =
        builder.operand_with_strides(*problem.bias, channels, dense_strides(channels, form.layout));
    const int sum = cast ? builder.internal(dims, form.layout) : result;
    Node add;
    add.op = Op::kAdd;
    add.operands = {made, bias};
    add.results = {sum};
    builder.add(std::move(add));
    made = sum;
  }
  if (cast) {
    Node identity;
    identity.op = Op::kIdentity;
    identity.operands = {made};
    identity.results = {result};
    builder.add(std::move(identity));
  }
  if (bias_apart) add_bias_after(builder, request, problem, form.layout, result);
  builder.graph().exact_in_tf32 = problem.low_operands;
  return builder.finish();
}

// The first form that the library takes, best first.
StatusOr<KernelPtr> prepare_problem(const KernelRequest& request, const Problem& problem) {
  const auto exchanged = [](Layout layout) {
    return layout == Layout::kRowMajor ? Layout::kChannelsLast : Layout::kRowMajor;
  };
  const DType low = request.inputs[0].dtype;
  std::vector<Form> forms;
  if (problem.low_operands) {
    const bool fused = problem.bias.has_value() || low != problem.result_dtype;
    const Layout best = fused ? Layout::kChannelsLast : problem.layout;
    forms = {{best, low}, {exchanged(best), low}};
  }
  forms.push_back({problem.layout, DType::kFloat32});
  forms.push_back({exchanged(problem.layout), DType::kFloat32});
  std::string refusals;
  for (const Form& form : forms) {
    auto kernel = prepare_in_form(request, problem, form);
    if (kernel.ok() || kernel.status().code() != StatusCode::kUnimplemented) return kernel;
    refusals += (refusals.empty() ? "" : "; ") + kernel.status().message();
  }
  if (problem.bias) {
    auto kernel = prepare_in_form(request, problem, {problem.layout, DType::kFloat32}, true);
    if (kernel.ok() || kernel.status().code() != StatusCode::kUnimplemented) return kernel;
  }
  return unimplemented(refusals);
}

}  // namespace

StatusOr<KernelPtr> prepare_conv(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Problem problem,
      read_problem(request, Op::kConv, request.inputs[0], request.inputs[1], request.outputs[0]));
  return prepare_problem(request, problem);
}

StatusOr<KernelPtr> prepare_conv_grad_input(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Problem problem,
                         read_problem(request, Op::kConvGradInput, request.outputs[0],
                                      request.inputs[1], request.inputs[0]));
  return prepare_problem(request, problem);
}

StatusOr<KernelPtr> prepare_conv_grad_weight(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Problem problem,
                         read_problem(request, Op::kConvGradWeight, request.inputs[1],
                                      request.outputs[0], request.inputs[0]));
  return prepare_problem(request, problem);
}

// The gradient of the convolution from y to x, whose weights lie as ONNX gives them.
StatusOr<KernelPtr> prepare_conv_transpose(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Problem problem,
                         read_problem(request, Op::kConvGradInput, request.outputs[0],
                                      request.inputs[1], request.inputs[0]));
  return prepare_problem(request, problem);
}

}  // namespace mezzo::kernels::cuda::dnn
