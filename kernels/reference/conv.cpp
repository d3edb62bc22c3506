// Convolution, its gradients and its transpose, with 1 to 3 spatial axes.
//
//   y[n,m,o] = b[m] + sum over c, k of x[n, g C/G + c, o stride - pad + k dilation] w[m,c,k]
//
// with G groups and m in group g. All five kernels visit the same triples (x, w, y) of elements
// and differ in which one they sum up. Workspace: the three tensors as row-major doubles. Sums run
// over n, then c, then k in rising order; the result is rounded once.
#include <algorithm>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/window.h"

namespace mezzo::kernels::reference {
namespace {

// Shapes of one convolution: x[n, c, in], w[m, c / groups, kernel], y[n, m, out].
struct Shape {
  std::int64_t n = 0;
  std::int64_t c = 0;
  std::int64_t m = 0;
  std::int64_t groups = 1;
  Windows windows;
};

// The windows `o` of an axis for which kernel position k lies inside the operand.
Range windows_inside(const Window& window, std::int64_t k) {
  const std::int64_t shift = window.pad_begin - k * window.dilation;  // o stride >= shift
  const std::int64_t first = shift > 0 ? (shift + window.stride - 1) / window.stride : 0;
  const std::int64_t room = window.in - 1 + shift;  // o stride <= room
  const std::int64_t last = room < 0 ? 0 : std::min(window.out, room / window.stride + 1);
  return {first, last};
}

// Calls visit(x index, w index, y index) for every product of one pair of channel planes.
template <typename Visit>
void for_each_tap(const Windows& windows, std::int64_t x_plane, std::int64_t w_plane,
                  std::int64_t y_plane, Visit&& visit) {
  const auto& [d, h, w] = windows.axis;
  std::int64_t tap = w_plane;
  for (std::int64_t kd = 0; kd < d.kernel; ++kd) {
    const Range rd = windows_inside(d, kd);
    for (std::int64_t kh = 0; kh < h.kernel; ++kh) {
      const Range rh = windows_inside(h, kh);
      for (std::int64_t kw = 0; kw < w.kernel; ++kw, ++tap) {
        const Range rw = windows_inside(w, kw);
        for (std::int64_t od = rd.first; od < rd.last; ++od) {
          for (std::int64_t oh = rh.first; oh < rh.last; ++oh) {
            const std::int64_t x_row =
                x_plane + (d.position(od, kd) * h.in + h.position(oh, kh)) * w.in;
            const std::int64_t y_row = y_plane + (od * h.out + oh) * w.out;
            for (std::int64_t ow = rw.first; ow < rw.last; ++ow) {
              visit(x_row + w.position(ow, kw), tap, y_row + ow);
            }
          }
        }
      }
    }
  }
}

// The same for the whole convolution.
template <typename Visit>
void for_each_product(const Shape& s, Visit&& visit) {
  const std::int64_t c_group = s.c / s.groups;
  const std::int64_t m_group = s.m / s.groups;
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t m = 0; m < s.m; ++m) {
      for (std::int64_t c = 0; c < c_group; ++c) {
        const std::int64_t x_channel = m / m_group * c_group + c;
        for_each_tap(s.windows, (n * s.c + x_channel) * s.windows.in_pixels(),
                     (m * c_group + c) * s.windows.kernel_elems(),
                     (n * s.m + m) * s.windows.out_pixels(), visit);
      }
    }
  }
}

Dims activation_dims(std::int64_t n, std::int64_t channels, const Dims& spatial) {
  Dims dims = {n, channels};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

// Checks x (or dx) and w (or dw) against the attributes and computes the dims of y.
StatusOr<Shape> read_shape(const Operands& operands, const TensorDesc& x, const TensorDesc& w) {
  const std::size_t rank = x.dims.size();
  if (rank < 3 || rank > 2 + kSpatial) {
    return operands.error("expected activations of rank 3 to 5, got " + format_dims(x.dims));
  }
  if (w.dims.size() != rank) {
    return operands.error("expected weights of rank " + std::to_string(rank) + ", got " +
                          format_dims(w.dims));
  }
  Shape shape;
  shape.n = x.dims[0];
  shape.c = x.dims[1];
  shape.m = w.dims[0];
  shape.groups = operands.attributes().get_int("group", 1);
  if (shape.groups < 1 || shape.c % shape.groups != 0 || shape.m % shape.groups != 0) {
    return operands.error("attribute 'group' is " + std::to_string(shape.groups) +
                          ", expected a divisor of the channels " + std::to_string(shape.c) +
                          " and " + std::to_string(shape.m));
  }
  if (w.dims[1] != shape.c / shape.groups) {
    return operands.error("expected weights of " + std::to_string(shape.c / shape.groups) +
                          " channels (" + std::to_string(shape.c) + " in " +
                          std::to_string(shape.groups) + " groups), got " + format_dims(w.dims));
  }
  MEZZO_ASSIGN_OR_RETURN(shape.windows,
                         read_windows(operands, spatial_dims(x.dims), spatial_dims(w.dims)));
  MEZZO_RETURN_IF_ERROR(set_window_counts(operands, false, shape.windows));
  return shape;
}

// Adds to `sum` the products of the two other tensors. Which of x, w, y is the sum?
enum class Target { kX, kW, kY };

// result = products of operands `first` and `second`, + bias per channel where there is one.
// first and second are, in this order, the two of (x, w, y) that are not the target.
PreparedKernel product_kernel(const Operands& operands, const Shape& shape, Target target,
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
  MEZZO_ASSIGN_OR_RETURN(const Shape shape, read_shape(operands, operands.in(0), operands.in(1)));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, {shape.m}));
  const Dims spatial = out_dims(shape.windows, operands.in(0).dims.size() - 2);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, activation_dims(shape.n, shape.m, spatial)));
  return product_kernel(operands, shape, Target::kY, 0, 1);
}

PreparedKernel prepare_conv_grad_input(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f w:f -> dx:f"));
  MEZZO_ASSIGN_OR_RETURN(const Shape shape, read_shape(operands, operands.out(0), operands.in(1)));
  const Dims spatial = out_dims(shape.windows, operands.out(0).dims.size() - 2);
  MEZZO_RETURN_IF_ERROR(operands.expect_in(0, activation_dims(shape.n, shape.m, spatial)));
  return product_kernel(operands, shape, Target::kX, 1, 0);
}

PreparedKernel prepare_conv_grad_weight(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f x:f -> dw:f"));
  MEZZO_ASSIGN_OR_RETURN(const Shape shape, read_shape(operands, operands.in(1), operands.out(0)));
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
  Shape shape;
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
