// Max, average and global average pooling, with 1 to 3 spatial axes, and their gradients.
//
// Windows are those of window.h. A window without any element (all padding) gives -infinity with
// index -1 in MaxPool and 0 in AveragePool. MaxPool takes the first of equal values, and a NaN
// before any number, as PyTorch does.
#include <cmath>
#include <limits>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/window.h"

namespace mezzo::kernels::reference {
namespace {

struct PoolShape {
  std::int64_t planes = 0;  // N C
  Windows windows;
};

// Reads the attributes for windows over `x` and sets the window counts.
StatusOr<PoolShape> read_pool(const Operands& operands, const TensorDesc& x) {
  const Dims& dims = x.dims;
  if (dims.size() < 3 || dims.size() > 2 + kSpatial) {
    return operands.error("expected activations of rank 3 to 5, got " + format_dims(dims));
  }
  MEZZO_ASSIGN_OR_RETURN(const bool ceil, operands.flag("ceil_mode", false));
  if (operands.attributes().get_int("storage_order", 0) != 0) {
    return unimplemented(operands.op() + ": column-major 'storage_order' is not supported");
  }
  PoolShape shape;
  shape.planes = dims[0] * dims[1];
  MEZZO_ASSIGN_OR_RETURN(shape.windows, read_windows(operands, spatial_dims(dims), {}));
  MEZZO_RETURN_IF_ERROR(set_window_counts(operands, ceil, shape.windows));
  return shape;
}

Dims pooled_dims(const Dims& x, const Windows& windows) {
  Dims dims = {x[0], x[1]};
  for (const std::int64_t dim : out_dims(windows, x.size() - 2)) dims.push_back(dim);
  return dims;
}

// Calls visit(pixel) for the elements of window (od, oh, ow) that lie inside x; pixel counts
// row-major within the plane.
template <typename Visit>
void for_each_inside(const Windows& windows, const std::array<std::int64_t, kSpatial>& o,
                     Visit&& visit) {
  const auto& [d, h, w] = windows.axis;
  const Range kd = d.inside(o[0]);
  const Range kh = h.inside(o[1]);
  const Range kw = w.inside(o[2]);
  for (std::int64_t i = kd.first; i < kd.last; ++i) {
    for (std::int64_t j = kh.first; j < kh.last; ++j) {
      const std::int64_t row = (d.position(o[0], i) * h.in + h.position(o[1], j)) * w.in;
      for (std::int64_t k = kw.first; k < kw.last; ++k) visit(row + w.position(o[2], k));
    }
  }
}

// Calls visit(plane, window, y index) for every window of every plane.
template <typename Visit>
void for_each_window(const PoolShape& shape, Visit&& visit) {
  const auto& [d, h, w] = shape.windows.axis;
  std::int64_t place = 0;
  for (std::int64_t plane = 0; plane < shape.planes; ++plane) {
    for (std::int64_t od = 0; od < d.out; ++od) {
      for (std::int64_t oh = 0; oh < h.out; ++oh) {
        for (std::int64_t ow = 0; ow < w.out; ++ow) {
          visit(plane, std::array<std::int64_t, kSpatial>{od, oh, ow}, place++);
        }
      }
    }
  }
}

// By how many elements AveragePool divides the sum of a window.
std::int64_t divisor(const Windows& windows, const std::array<std::int64_t, kSpatial>& o,
                     bool include_pad) {
  std::int64_t product = 1;
  for (std::size_t i = 0; i < kSpatial; ++i) {
    const Window& window = windows.axis[i];
    const Range range = include_pad ? window.inside_padded(o[i]) : window.inside(o[i]);
    product *= range.last - range.first;
  }
  return product;
}

}  // namespace

PreparedKernel prepare_max_pool(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:f -> y:f indices?:l"));
  MEZZO_ASSIGN_OR_RETURN(const PoolShape shape, read_pool(operands, operands.in(0)));
  const Dims dims = pooled_dims(operands.in(0).dims, shape.windows);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, dims));
  return make_kernel([shape, x = Elements(operands.in(0)), y = Elements(operands.out(0)),
                      indices = Elements(operands.out(1)),
                      wants_indices = operands.out(1).present()](const KernelArguments& arguments) {
    const std::int64_t pixels = shape.windows.in_pixels();
    for_each_window(shape, [&](std::int64_t plane, const auto& window, std::int64_t place) {
      double best = -std::numeric_limits<double>::infinity();
      std::int64_t best_index = -1;
      for_each_inside(shape.windows, window, [&](std::int64_t pixel) {
        const std::int64_t index = plane * pixels + pixel;
        const double value = x.read<double>(arguments.inputs[0], index);
        if (best_index < 0 || value > best || (std::isnan(value) && !std::isnan(best))) {
          best = value;
          best_index = index;
        }
      });
      y.write<double>(arguments.outputs[0], place, best);
      if (wants_indices) indices.write<Integer>(arguments.outputs[1], place, best_index);
    });
  });
}

PreparedKernel prepare_max_pool_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "dy:f indices:l -> dx:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 3, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, operands.in(0).dims));
  const Dims& dx_dims = operands.out(0).dims;
  const Dims& dy_dims = operands.in(0).dims;
  if (dx_dims.size() != dy_dims.size() || dx_dims[0] != dy_dims[0] || dx_dims[1] != dy_dims[1]) {
    return operands.out_error(0, "dims " + format_dims(dx_dims) + " differ from " +
                                     format_dims(dy_dims) + " of operand 0 in more than the image");
  }
  return make_kernel(
      [dy = Elements(operands.in(0)), indices = Elements(operands.in(1)),
       dx = Elements(operands.out(0))](const KernelArguments& arguments) {
        auto* sum = static_cast<double*>(arguments.workspace);
        for (std::int64_t i = 0; i < dx.count(); ++i) sum[i] = 0.0;
        for (std::int64_t i = 0; i < dy.count(); ++i) {
          const Integer index = indices.read<Integer>(arguments.inputs[1], i);
          if (index == -1) continue;  // a window of padding
          if (index < 0 || index >= dx.count()) {
            return invalid_argument("MaxPoolGrad, operand 1 'indices': element " +
                                    std::to_string(i) + " is " +
                                    std::to_string(static_cast<std::int64_t>(index)) +
                                    ", expected 0 to " + std::to_string(dx.count() - 1));
          }
          sum[static_cast<std::int64_t>(index)] += dy.read<double>(arguments.inputs[0], i);
        }
        dx.pack(sum, arguments.outputs[0]);
        return ok_status();
      },
      doubles_bytes(operands.out(0).elems()));
}

PreparedKernel prepare_average_pool(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  MEZZO_ASSIGN_OR_RETURN(const PoolShape shape, read_pool(operands, operands.in(0)));
  MEZZO_ASSIGN_OR_RETURN(const bool include_pad, operands.flag("count_include_pad", false));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, pooled_dims(operands.in(0).dims, shape.windows)));
  return make_kernel([shape, include_pad, x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    const std::int64_t pixels = shape.windows.in_pixels();
    for_each_window(shape, [&](std::int64_t plane, const auto& window, std::int64_t place) {
      double sum = 0.0;
      for_each_inside(shape.windows, window, [&](std::int64_t pixel) {
        sum += x.read<double>(arguments.inputs[0], plane * pixels + pixel);
      });
      const std::int64_t count = divisor(shape.windows, window, include_pad);
      y.write<double>(arguments.outputs[0], place,
                      count == 0 ? 0.0 : sum / static_cast<double>(count));
    });
  });
}

PreparedKernel prepare_average_pool_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f -> dx:f"));
  MEZZO_ASSIGN_OR_RETURN(const PoolShape shape, read_pool(operands, operands.out(0)));
  MEZZO_ASSIGN_OR_RETURN(const bool include_pad, operands.flag("count_include_pad", false));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(0, pooled_dims(operands.out(0).dims, shape.windows)));
  return make_kernel(
      [shape, include_pad, dy = Elements(operands.in(0)),
       dx = Elements(operands.out(0))](const KernelArguments& arguments) {
        auto* sum = static_cast<double*>(arguments.workspace);
        for (std::int64_t i = 0; i < dx.count(); ++i) sum[i] = 0.0;
        const std::int64_t pixels = shape.windows.in_pixels();
        for_each_window(shape, [&](std::int64_t plane, const auto& window, std::int64_t place) {
          const auto count = static_cast<double>(divisor(shape.windows, window, include_pad));
          const double share = dy.read<double>(arguments.inputs[0], place) / count;
          for_each_inside(shape.windows, window,
                          [&](std::int64_t pixel) { sum[plane * pixels + pixel] += share; });
        });
        dx.pack(sum, arguments.outputs[0]);
      },
      doubles_bytes(operands.out(0).elems()));
}

namespace {

// The dims of the pooled tensor [N,C,1,..].
Dims global_dims(const Dims& x) {
  Dims dims(x.size(), 1);
  dims[0] = x[0];
  dims[1] = x[1];
  return dims;
}

std::int64_t image_pixels(const Dims& dims) {
  std::int64_t pixels = 1;
  for (std::size_t i = 2; i < dims.size(); ++i) pixels *= dims[i];
  return pixels;
}

}  // namespace

PreparedKernel prepare_global_average_pool(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 3, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, global_dims(operands.in(0).dims)));
  return make_kernel([pixels = image_pixels(operands.in(0).dims), x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for (std::int64_t plane = 0; plane < y.count(); ++plane) {
      double sum = 0.0;
      for (std::int64_t p = 0; p < pixels; ++p) {
        sum += x.read<double>(arguments.inputs[0], plane * pixels + p);
      }
      y.write<double>(arguments.outputs[0], plane, sum / static_cast<double>(pixels));
    }
  });
}

PreparedKernel prepare_global_average_pool_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f -> dx:f"));
  const Dims& dims = operands.out(0).dims;
  if (dims.size() < 3) {
    return operands.out_error(0, "expected rank 3 or more, got " + format_dims(dims));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_in(0, global_dims(dims)));
  return make_kernel([pixels = image_pixels(dims), dy = Elements(operands.in(0)),
                      dx = Elements(operands.out(0))](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < dx.count(); ++i) {
      dx.write<double>(
          arguments.outputs[0], i,
          dy.read<double>(arguments.inputs[0], i / pixels) / static_cast<double>(pixels));
    }
  });
}

}  // namespace mezzo::kernels::reference
