// Convolution, its gradients and its transpose, with 1 to 3 spatial axes.
//
//   y[n,m,o] = b[m] + sum over c, k of x[n, g C/G + c, o stride - pad + k dilation] w[m,c,k]
//
// with G groups and m in group g. All five kernels visit the same triples (x, w, y) of elements
// and differ in which one they sum up. Workspace: the three tensors as row-major doubles. Sums run
// over n, then c, then k in rising order; the result is rounded once.
#include <algorithm>

#include "compiler/support/text.h"
#include "kernels/reference/conv_shape.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"

namespace mezzo::kernels::reference {
namespace {

// Adds to `sum` the products of the two other tensors. Which of x, w, y is the sum?
enum class Target { kX, kW, kY };

// result = products of operands `first` and `second`, + bias per channel where there is one.
// first and second are, in this order, the two of (x, w, y) that are not the target.
PreparedKernel product_kernel(const Operands& operands, const ConvShape& shape, Target target,
                              std::size_t first, std::size_t second) {
  const bool has_bias = operands.in_count() > 2 && operands.in(2).present();
  const std::int64_t channels = operands.out(0).dims[1];
  return make_kernel(
      [shape, target, first, second, has_bias, channels, a = Elements(operands.in(first)),
       b = Elements(operands.in(second)), bias = Elements(operands.in(2)),
       result = Elements(operands.out(0))](const KernelArguments& arguments) {
        auto* sum = static_cast<double*>(arguments.workspace);
        double* left = sum + result.count();
        double* right = left + a.count();
        a.unpack(arguments.inputs[first], left);
        b.unpack(arguments.inputs[second], right);
        const std::int64_t pixels =
            result.count() == 0 || !has_bias ? 1 : result.count() / shape.n / channels;
        for (std::int64_t i = 0; i < result.count(); ++i) {
          sum[i] = has_bias ? bias.read<double>(arguments.inputs[2], i / pixels % channels) : 0.0;
        }
        using Index = std::int64_t;
        switch (target) {
          case Target::kX:
            for_each_product(shape,
                             [=](Index x, Index w, Index y) { sum[x] += left[w] * right[y]; });
            break;
          case Target::kW:
            for_each_product(shape,
                             [=](Index x, Index w, Index y) { sum[w] += left[x] * right[y]; });
            break;
          case Target::kY:
            for_each_product(shape,
                             [=](Index x, Index w, Index y) { sum[y] += left[x] * right[w]; });
            break;
        }
        result.pack(sum, arguments.outputs[0]);
      },
      doubles_bytes(operands.out(0).elems() + operands.in(first).elems() +
                    operands.in(second).elems()));
}

}  // namespace

PreparedKernel prepare_conv(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f w:f b?:f -> y:f"));
  MEZZO_ASSIGN_OR_RETURN(const ConvShape shape,
                         read_conv_shape(operands, operands.in(0), operands.in(1)));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, {shape.m}));
  const Dims spatial = out_dims(shape.windows, operands.in(0).dims.size() - 2);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, activation_dims(shape.n, shape.m, spatial)));
  return product_kernel(operands, shape, Target::kY, 0, 1);
}

PreparedKernel prepare_conv_grad_input(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f w:f -> dx:f"));
  MEZZO_ASSIGN_OR_RETURN(const ConvShape shape,
                         read_conv_shape(operands, operands.out(0), operands.in(1)));
  const Dims spatial = out_dims(shape.windows, operands.out(0).dims.size() - 2);
  MEZZO_RETURN_IF_ERROR(operands.expect_in(0, activation_dims(shape.n, shape.m, spatial)));
  return product_kernel(operands, shape, Target::kX, 1, 0);
}

PreparedKernel prepare_conv_grad_weight(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f x:f -> dw:f"));
  MEZZO_ASSIGN_OR_RETURN(const ConvShape shape,
                         read_conv_shape(operands, operands.in(1), operands.out(0)));
  const Dims spatial = out_dims(shape.windows, operands.in(1).dims.size() - 2);
  MEZZO_RETURN_IF_ERROR(operands.expect_in(0, activation_dims(shape.n, shape.m, spatial)));
  return product_kernel(operands, shape, Target::kW, 1, 0);
}

PreparedKernel prepare_conv_grad_bias(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f -> db:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  const Dims& dims = operands.in(0).dims;
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, {dims[1]}));
  const std::int64_t pixels =
      operands.in(0).elems() == 0 ? 0 : operands.in(0).elems() / dims[0] / dims[1];
  return make_kernel([n = dims[0], channels = dims[1], pixels, dy = Elements(operands.in(0)),
                      db = Elements(operands.out(0))](const KernelArguments& arguments) {
    for (std::int64_t c = 0; c < channels; ++c) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t p = 0; p < pixels; ++p) {
          sum += dy.read<double>(arguments.inputs[0], (i * channels + c) * pixels + p);
        }
      }
      db.write<double>(arguments.outputs[0], c, sum);
    }
  });
}

// y[N,M,..] such that Conv of y with w (read as [C, M/group, ..]) has the dims of x: x takes the
// part of dy and y that of dx.
PreparedKernel prepare_conv_transpose(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f w:f b?:f -> y:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 3, 2 + kSpatial));
  const Dims& x = operands.in(0).dims;
  const Dims& w = operands.in(1).dims;
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, x.size(), x.size()));
  if (request.attributes.has("output_shape")) {
    return unimplemented(
        "ConvTranspose: 'output_shape' must be resolved to 'pads' and 'output_padding'");
  }
  ConvShape shape;
  shape.n = x[0];
  shape.m = x[1];
  shape.groups = request.attributes.get_int("group", 1);
  if (w[0] != x[1] || shape.groups < 1 || x[1] % shape.groups != 0 ||
      w[1] > kMaxElems / shape.groups) {
    return operands.error("weights " + format_dims(w) + " in " + std::to_string(shape.groups) +
                          " groups do not fit operand 0 of dims " + format_dims(x));
  }
  shape.c = w[1] * shape.groups;
  MEZZO_ASSIGN_OR_RETURN(shape.windows, read_windows(operands, spatial_dims(x), spatial_dims(w)));
  const std::size_t rank = x.size() - 2;
  Dims padding = request.attributes.get_ints("output_padding", Dims(rank, 0));
  if (padding.size() != rank) {
    return operands.error("attribute 'output_padding': expected " + std::to_string(rank) +
                          " values, got " + format_dims(padding));
  }
  Dims spatial;
  for (std::size_t i = 0; i < rank; ++i) {
    Window& window = shape.windows.axis[kSpatial - rank + i];
    if (padding[i] < 0 || padding[i] >= std::max(window.stride, window.dilation)) {
      return operands.error("attribute 'output_padding' is " + format_dims(padding) +
                            ", expected 0 to less than stride or dilation");
    }
    window.out = window.in;
    window.in = window.stride * (window.out - 1) + padding[i] + window.reach() - window.pad_begin -
                window.pad_end;
    if (window.out < 1 || window.in < 1) return operands.error("the result would be empty");
    spatial.push_back(window.in);
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, {shape.c}));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, activation_dims(shape.n, shape.c, spatial)));
  return product_kernel(operands, shape, Target::kX, 1, 0);
}

}  // namespace mezzo::kernels::reference
