// Max, average and global average pooling, with 1 to 3 spatial axes, and their gradients.
//
// Windows are those of window.h. A window without any element (all padding) gives -infinity with
// index -1 in MaxPool (integers: their least number) and 0 in AveragePool. MaxPool takes the first
// of equal values, and a NaN before any number, as PyTorch does.
#include <cmath>
#include <limits>
#include <type_traits>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/pool_shape.h"

namespace mezzo::kernels::reference {
namespace {

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

// What a window of padding alone gives: nothing is less.
template <typename T>
T least(DType dtype) {
  if constexpr (std::is_same_v<T, double>) {
    return -std::numeric_limits<double>::infinity();
  } else {
    if (dtype_name(dtype).substr(0, 1) == "u") return 0;
    return -(Integer{1} << (dtype_bits(dtype) - 1));
  }
}

template <typename T>
bool goes_before(T value, T best) {
  if constexpr (std::is_same_v<T, double>) {
    return value > best || (std::isnan(value) && !std::isnan(best));
  } else {
    return value > best;
  }
}

// Row-major number of a pixel as ONNX's storage_order 1 counts: the first spatial axis fastest.
std::int64_t column_major_pixel(const Windows& windows, std::int64_t pixel) {
  const auto& [d, h, w] = windows.axis;
  const std::int64_t x = pixel % w.in;
  const std::int64_t y = pixel / w.in % h.in;
  const std::int64_t z = pixel / w.in / h.in;
  return z + d.in * (y + h.in * x);
}

// T: double or Integer.
template <typename T>
PreparedKernel max_pool_kernel(const Operands& operands, const PoolShape& shape,
                               bool column_major) {
  return make_kernel([shape, column_major, x = Elements(operands.in(0)),
                      y = Elements(operands.out(0)), indices = Elements(operands.out(1)),
                      wants_indices = operands.out(1).present()](const KernelArguments& arguments) {
    const std::int64_t pixels = shape.windows.in_pixels();
    for_each_window(shape, [&](std::int64_t plane, const auto& window, std::int64_t place) {
      T best = least<T>(y.dtype());
      std::int64_t best_pixel = -1;
      for_each_inside(shape.windows, window, [&](std::int64_t pixel) {
        const T value = x.read<T>(arguments.inputs[0], plane * pixels + pixel);
        if (best_pixel < 0 || goes_before(value, best)) {
          best = value;
          best_pixel = pixel;
        }
      });
      y.write<T>(arguments.outputs[0], place, best);
      if (!wants_indices) return;
      if (column_major && best_pixel >= 0)
        best_pixel = column_major_pixel(shape.windows, best_pixel);
      indices.write<Integer>(arguments.outputs[1], place,
                             best_pixel < 0 ? -1 : plane * pixels + best_pixel);
    });
  });
}

}  // namespace

PreparedKernel prepare_max_pool(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:n -> y:n indices?:l"));
  MEZZO_ASSIGN_OR_RETURN(const PoolShape shape, read_pool(operands, operands.in(0)));
  MEZZO_ASSIGN_OR_RETURN(const bool column_major, operands.flag("storage_order", false));
  const Dims dims = pooled_dims(operands.in(0).dims, shape.windows);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, dims));
  if (is_integer(operands.in(0).dtype)) {
    if (operands.out(0).dtype != operands.in(0).dtype) {
      return operands.out_error(0, "expected the dtype of operand 0");
    }
    return max_pool_kernel<Integer>(operands, shape, column_major);
  }
  if (!is_floating(operands.out(0).dtype))
    return operands.out_error(0, "expected a floating dtype");
  return max_pool_kernel<double>(operands, shape, column_major);
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
