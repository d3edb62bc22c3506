// Products of 8-bit integers: MatMulInteger, ConvInteger, QLinearMatMul and QLinearConv.
//
// A quantised operand stands for scale (q - zero point). Sums of (a - za)(b - zb) are exact in
// int32 (ONNX's type for them; beyond that they wrap). Where the result is quantised as well,
//
//   y = saturate(round to nearest even(sum sa sb / sy) + zy)
//
// with the factor in double. Padding counts as the zero point, so it adds nothing. Zero points and
// scales are one for all, one per row of a, or one per column of b (output channel of w).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/support/text.h"
#include "kernels/reference/conv_shape.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"

namespace mezzo::kernels::reference {
namespace {

// A zero point or scale: absent, one number, or one per line (row or column) of every matrix, or
// per line of each matrix of a batch.
struct PerLine {
  Elements elements{TensorDesc{}};
  std::size_t operand = 0;
  std::int64_t lines = 1;

  std::int64_t place(std::int64_t matrix, std::int64_t line) const {
    if (elements.count() == 1) return 0;
    return elements.count() == lines ? line : matrix * lines + line;
  }
  Integer zero(const KernelArguments& arguments, std::int64_t matrix, std::int64_t line) const {
    const void* data = in_buffer(arguments, operand);
    return data == nullptr ? 0 : elements.read<Integer>(data, place(matrix, line));
  }
  double scale(const KernelArguments& arguments, std::int64_t matrix, std::int64_t line) const {
    return elements.read<double>(arguments.inputs[operand], place(matrix, line));
  }
};

// `lines` of each of `matrices` matrices; InvalidArgument if operand i has other dims.
StatusOr<PerLine> read_per_line(const Operands& operands, std::size_t i, std::int64_t matrices,
                                std::int64_t lines) {
  const TensorDesc& desc = operands.in(i);
  if (!desc.present()) return PerLine{Elements(TensorDesc{}), i, lines};
  const std::int64_t count = desc.elems();
  if (count == 1 || count == lines || count == matrices * lines) {
    return PerLine{Elements(desc), i, lines};
  }
  return operands.in_error(i, "expected one element or " + std::to_string(lines) + ", got dims " +
                                  format_dims(desc.dims));
}

// round(value) + zero within the ends of int8 or uint8. NaN becomes the zero point.
Integer requantize(double value, Integer zero, DType dtype) {
  const bool is_signed = dtype == DType::kInt8;
  const double low = is_signed ? -128.0 : 0.0;
  const double high = is_signed ? 127.0 : 255.0;
  const double rounded = std::isnan(value) ? 0.0 : std::nearbyint(value);
  return static_cast<Integer>(std::clamp(rounded + static_cast<double>(zero), low, high));
}

// numpy.matmul's shapes with vectors as matrices.
struct Matrices {
  std::int64_t m = 1, k = 1, n = 1;
  Loop<2> batch;  // numbers of the matrices of a and b
  std::int64_t a_matrices = 1, b_matrices = 1;
};

StatusOr<Matrices> read_matrices(const Operands& operands, std::size_t a_operand,
                                 std::size_t b_operand) {
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(a_operand, 1, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(b_operand, 1, kMaxRank));
  TensorDesc a = operands.in(a_operand);
  TensorDesc b = operands.in(b_operand);
  const bool a_vector = a.dims.size() == 1;
  const bool b_vector = b.dims.size() == 1;
  if (a_vector) a.dims.insert(a.dims.begin(), 1);
  if (b_vector) b.dims.push_back(1);
  Matrices shape;
  shape.m = a.dims.end()[-2];
  shape.k = a.dims.end()[-1];
  shape.n = b.dims.end()[-1];
  if (shape.k != b.dims.end()[-2]) {
    return operands.in_error(b_operand, "inner sizes of " +
                                            format_dims(operands.in(a_operand).dims) + " and " +
                                            format_dims(operands.in(b_operand).dims) + " differ");
  }
  a.dims.resize(a.dims.size() - 2);
  b.dims.resize(b.dims.size() - 2);
  a.layout = b.layout = Layout::kRowMajor;
  const auto batch = broadcast_dims(a.dims, b.dims);
  if (!batch) return operands.in_error(b_operand, "batch dims do not broadcast");
  shape.batch = broadcast_loop<2>(*batch, {&a, &b});
  shape.a_matrices = a.elems();
  shape.b_matrices = b.elems();
  Dims dims = *batch;
  if (!a_vector) dims.push_back(shape.m);
  if (!b_vector) dims.push_back(shape.n);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  return shape;
}

// Calls put(place in y, a's matrix, row, b's matrix, column, sum) for every element of y.
template <typename Put>
void for_each_sum(const KernelArguments& arguments, const Matrices& shape, const Elements& a,
                  std::size_t a_operand, const PerLine& a_zero, const Elements& b,
                  std::size_t b_operand, const PerLine& b_zero, Put&& put) {
  std::int64_t place = 0;
  for_each(shape.batch, [&](const std::array<std::int64_t, 2>& matrix) {
    for (std::int64_t row = 0; row < shape.m; ++row) {
      const Integer za = a_zero.zero(arguments, matrix[0], row);
      for (std::int64_t column = 0; column < shape.n; ++column) {
        const Integer zb = b_zero.zero(arguments, matrix[1], column);
        Integer sum = 0;
        for (std::int64_t i = 0; i < shape.k; ++i) {
          const std::int64_t left = (matrix[0] * shape.m + row) * shape.k + i;
          const std::int64_t right = (matrix[1] * shape.k + i) * shape.n + column;
          sum += (a.read<Integer>(arguments.inputs[a_operand], left) - za) *
                 (b.read<Integer>(arguments.inputs[b_operand], right) - zb);
        }
        put(place++, matrix[0], row, matrix[1], column, static_cast<std::int32_t>(sum));
      }
    }
  });
}

// Where x, w and their zero points are among the operands of an integer convolution.
struct ConvOperands {
  std::size_t x, w, x_zero, w_zero;
};
constexpr ConvOperands kIntegerConv = {0, 1, 2, 3};
constexpr ConvOperands kQLinearConv = {0, 3, 2, 5};

// Workspace: a sum per element of y.
void sum_convolution(const KernelArguments& arguments, const ConvShape& shape,
                     const ConvOperands& at, const Elements& x, const Elements& w,
                     const PerLine& x_zero, const PerLine& w_zero, std::int64_t y_count) {
  auto* sum = static_cast<std::int64_t*>(arguments.workspace);
  std::fill_n(sum, y_count, std::int64_t{0});
  const auto zx = static_cast<std::int64_t>(x_zero.zero(arguments, 0, 0));
  const std::int64_t taps = shape.c / shape.groups * shape.windows.kernel_elems();
  for_each_product(shape, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
    const auto zw = static_cast<std::int64_t>(w_zero.zero(arguments, 0, wi / taps));
    sum[yi] += (static_cast<std::int64_t>(x.read<Integer>(arguments.inputs[at.x], xi)) - zx) *
               (static_cast<std::int64_t>(w.read<Integer>(arguments.inputs[at.w], wi)) - zw);
  });
}

StatusOr<ConvShape> read_integer_conv(const Operands& operands, const ConvOperands& at) {
  MEZZO_ASSIGN_OR_RETURN(const ConvShape shape,
                         read_conv_shape(operands, operands.in(at.x), operands.in(at.w)));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(at.x_zero));
  const Dims spatial = out_dims(shape.windows, operands.in(at.x).dims.size() - 2);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, activation_dims(shape.n, shape.m, spatial)));
  return shape;
}

}  // namespace

PreparedKernel prepare_matmul_integer(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request, "a:q b:q a_zero_point?:q b_zero_point?:q -> y:j"));
  MEZZO_ASSIGN_OR_RETURN(const Matrices shape, read_matrices(operands, 0, 1));
  MEZZO_ASSIGN_OR_RETURN(const PerLine a_zero,
                         read_per_line(operands, 2, shape.a_matrices, shape.m));
  MEZZO_ASSIGN_OR_RETURN(const PerLine b_zero,
                         read_per_line(operands, 3, shape.b_matrices, shape.n));
  return make_kernel([shape, a_zero, b_zero, a = Elements(operands.in(0)),
                      b = Elements(operands.in(1)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for_each_sum(arguments, shape, a, 0, a_zero, b, 1, b_zero,
                 [&](std::int64_t place, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                     std::int32_t sum) { y.write<Integer>(arguments.outputs[0], place, sum); });
  });
}

PreparedKernel prepare_qlinear_matmul(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request,
                      "a:q a_scale:f a_zero_point:q b:q b_scale:f b_zero_point:q y_scale:f "
                      "y_zero_point:q -> y:q"));
  MEZZO_ASSIGN_OR_RETURN(const Matrices shape, read_matrices(operands, 0, 3));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(6));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(7));
  MEZZO_ASSIGN_OR_RETURN(const PerLine a_scale,
                         read_per_line(operands, 1, shape.a_matrices, shape.m));
  MEZZO_ASSIGN_OR_RETURN(const PerLine a_zero,
                         read_per_line(operands, 2, shape.a_matrices, shape.m));
  MEZZO_ASSIGN_OR_RETURN(const PerLine b_scale,
                         read_per_line(operands, 4, shape.b_matrices, shape.n));
  MEZZO_ASSIGN_OR_RETURN(const PerLine b_zero,
                         read_per_line(operands, 5, shape.b_matrices, shape.n));
  return make_kernel([shape, a_scale, a_zero, b_scale, b_zero, a = Elements(operands.in(0)),
                      b = Elements(operands.in(3)), y_scale = Elements(operands.in(6)),
                      y_zero = Elements(operands.in(7)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    const double to_scale = y_scale.read<double>(arguments.inputs[6], 0);
    const Integer to_zero = y_zero.read<Integer>(arguments.inputs[7], 0);
    for_each_sum(arguments, shape, a, 0, a_zero, b, 3, b_zero,
                 [&](std::int64_t place, std::int64_t a_matrix, std::int64_t row,
                     std::int64_t b_matrix, std::int64_t column, std::int32_t sum) {
                   const double factor = a_scale.scale(arguments, a_matrix, row) *
                                         b_scale.scale(arguments, b_matrix, column) / to_scale;
                   y.write<Integer>(arguments.outputs[0], place,
                                    requantize(sum * factor, to_zero, y.dtype()));
                 });
  });
}

PreparedKernel prepare_conv_integer(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request, "x:q w:q x_zero_point?:q w_zero_point?:q -> y:j"));
  MEZZO_ASSIGN_OR_RETURN(const ConvShape shape, read_integer_conv(operands, kIntegerConv));
  MEZZO_ASSIGN_OR_RETURN(const PerLine x_zero, read_per_line(operands, kIntegerConv.x_zero, 1, 1));
  MEZZO_ASSIGN_OR_RETURN(const PerLine w_zero,
                         read_per_line(operands, kIntegerConv.w_zero, 1, shape.m));
  return make_kernel(
      [shape, x_zero, w_zero, x = Elements(operands.in(0)), w = Elements(operands.in(1)),
       y = Elements(operands.out(0))](const KernelArguments& arguments) {
        sum_convolution(arguments, shape, kIntegerConv, x, w, x_zero, w_zero, y.count());
        const auto* sum = static_cast<const std::int64_t*>(arguments.workspace);
        for (std::int64_t i = 0; i < y.count(); ++i) {
          y.write<Integer>(arguments.outputs[0], i, sum[i]);
        }
      },
      doubles_bytes(operands.out(0).elems()));
}

// b is int32 in units of x_scale w_scale.
PreparedKernel prepare_qlinear_conv(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request,
                      "x:q x_scale:f x_zero_point:q w:q w_scale:f w_zero_point:q y_scale:f "
                      "y_zero_point:q b?:j -> y:q"));
  MEZZO_ASSIGN_OR_RETURN(const ConvShape shape, read_integer_conv(operands, kQLinearConv));
  for (const std::size_t scalar : {1, 6, 7}) {
    MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(scalar));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_in(8, {shape.m}));
  MEZZO_ASSIGN_OR_RETURN(const PerLine x_zero, read_per_line(operands, kQLinearConv.x_zero, 1, 1));
  MEZZO_ASSIGN_OR_RETURN(const PerLine w_scale, read_per_line(operands, 4, 1, shape.m));
  MEZZO_ASSIGN_OR_RETURN(const PerLine w_zero,
                         read_per_line(operands, kQLinearConv.w_zero, 1, shape.m));
  return make_kernel(
      [shape, x_zero, w_scale, w_zero, x = Elements(operands.in(0)), w = Elements(operands.in(3)),
       x_scale = Elements(operands.in(1)), y_scale = Elements(operands.in(6)),
       y_zero = Elements(operands.in(7)), bias = Elements(operands.in(8)),
       y = Elements(operands.out(0))](const KernelArguments& arguments) {
        sum_convolution(arguments, shape, kQLinearConv, x, w, x_zero, w_zero, y.count());
        const auto* sum = static_cast<const std::int64_t*>(arguments.workspace);
        const double from_scale = x_scale.read<double>(arguments.inputs[1], 0);
        const double to_scale = y_scale.read<double>(arguments.inputs[6], 0);
        const Integer to_zero = y_zero.read<Integer>(arguments.inputs[7], 0);
        const void* bias_data = in_buffer(arguments, 8);
        const std::int64_t pixels = shape.windows.out_pixels();
        for (std::int64_t i = 0; i < y.count(); ++i) {
          const std::int64_t channel = i / pixels % shape.m;
          Integer total = sum[i];
          if (bias_data != nullptr) total += bias.read<Integer>(bias_data, channel);
          const double factor = from_scale * w_scale.scale(arguments, 0, channel) / to_scale;
          y.write<Integer>(arguments.outputs[0], i,
                           requantize(static_cast<double>(total) * factor, to_zero, y.dtype()));
        }
      },
      doubles_bytes(operands.out(0).elems()));
}

}  // namespace mezzo::kernels::reference
