// Layer normalisation over the dims from `axis` on, and its gradient. Letters: R rows (product of
// the dims before axis), D elements per row.
//
//   y = scale (x - mean) inv_std + bias,  inv_std = 1 / sqrt(var + epsilon), one mean per row
//
// Statistics take two passes in double.
#include <cmath>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

// x as rows to normalise, and the dims of the operands that go with it.
struct Rows {
  std::int64_t count = 1;
  std::int64_t length = 1;
  Dims scale_dims;      // dims[axis..]
  Dims statistic_dims;  // dims[..axis], then ones
};

StatusOr<Rows> read_rows(const Operands& operands, const Dims& dims) {
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", -1, dims.size()));
  Rows rows;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool inner = static_cast<std::int64_t>(i) >= axis;
    (inner ? rows.length : rows.count) *= dims[i];
    if (inner) rows.scale_dims.push_back(dims[i]);
    rows.statistic_dims.push_back(inner ? 1 : dims[i]);
  }
  return rows;
}

}  // namespace

PreparedKernel prepare_layer_norm(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request, "x:f scale:f bias?:f -> y:f mean?:f inv_std_dev?:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  const Dims& dims = operands.in(0).dims;
  MEZZO_ASSIGN_OR_RETURN(const Rows rows, read_rows(operands, dims));
  for (const std::size_t i : {1, 2}) {
    if (operands.in(i).present() && !broadcasts_to(operands.in(i).dims, rows.scale_dims)) {
      return operands.in_error(i, "dims " + format_dims(operands.in(i).dims) +
                                      " do not broadcast to " + format_dims(rows.scale_dims));
    }
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, rows.statistic_dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(2, rows.statistic_dims));
  TensorDesc dense = operands.in(0);
  dense.layout = Layout::kRowMajor;
  const TensorDesc& bias_desc = operands.in(operands.in(2).present() ? 2 : 1);
  return make_kernel([loop = broadcast_loop<3>(dims, {&dense, &operands.in(1), &bias_desc}),
                      length = rows.length, epsilon = request.attributes.get_float("epsilon", 1e-5),
                      x = Elements(operands.in(0)), scale = Elements(operands.in(1)),
                      bias = Elements(operands.in(2)), y = Elements(operands.out(0)),
                      mean = Elements(operands.out(1)),
                      inv_std_dev = Elements(operands.out(2))](const KernelArguments& arguments) {
    const auto& in = arguments.inputs;
    const void* offset = in_buffer(arguments, 2);
    double m = 0.0;
    double r = 0.0;
    const auto take_statistics = [&](std::int64_t row) {
      const std::int64_t start = row * length;
      m = 0.0;
      for (std::int64_t i = 0; i < length; ++i) m += x.read<double>(in[0], start + i);
      m /= static_cast<double>(length);
      double variance = 0.0;
      for (std::int64_t i = 0; i < length; ++i) {
        const double distance = x.read<double>(in[0], start + i) - m;
        variance += distance * distance;
      }
      r = 1.0 / std::sqrt(variance / static_cast<double>(length) + epsilon);
      if (void* result = out_buffer(arguments, 1)) mean.write<double>(result, row, m);
      if (void* result = out_buffer(arguments, 2)) inv_std_dev.write<double>(result, row, r);
    };
    for_each(loop, [&](const std::array<std::int64_t, 3>& at) {
      if (at[0] % length == 0) take_statistics(at[0] / length);
      const double xhat = (x.read<double>(in[0], at[0]) - m) * r;
      const double b = offset != nullptr ? bias.read_at<double>(offset, at[2]) : 0.0;
      y.write<double>(arguments.outputs[0], at[0], xhat * scale.read_at<double>(in[1], at[1]) + b);
    });
  });
}

// With g = dy scale and xhat = (x - mean) inv_std_dev:
//   dx = inv_std_dev (g - mean of g - xhat mean of (g xhat)), means over the row;
//   dscale = sum over rows of dy xhat, dbias = sum over rows of dy.
// Workspace: dscale and dbias as doubles.
PreparedKernel prepare_layer_norm_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request,
                      "dy:f x:f scale:f mean:f inv_std_dev:f -> dx?:f dscale?:f dbias?:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  const Dims& dims = operands.in(0).dims;
  MEZZO_ASSIGN_OR_RETURN(const Rows rows, read_rows(operands, dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, rows.scale_dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(3, rows.statistic_dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(4, rows.statistic_dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, rows.scale_dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(2, rows.scale_dims));
  return make_kernel(
      [count = rows.count, length = rows.length, dy = Elements(operands.in(0)),
       x = Elements(operands.in(1)), scale = Elements(operands.in(2)),
       mean = Elements(operands.in(3)), inv_std_dev = Elements(operands.in(4)),
       dx = Elements(operands.out(0)), dscale = Elements(operands.out(1)),
       dbias = Elements(operands.out(2))](const KernelArguments& arguments) {
        const auto& in = arguments.inputs;
        auto* scale_sum = static_cast<double*>(arguments.workspace);
        double* bias_sum = scale_sum + length;
        for (std::int64_t i = 0; i < 2 * length; ++i) scale_sum[i] = 0.0;
        for (std::int64_t row = 0; row < count; ++row) {
          const std::int64_t start = row * length;
          const double m = mean.read<double>(in[3], row);
          const double r = inv_std_dev.read<double>(in[4], row);
          double g_mean = 0.0;
          double g_xhat_mean = 0.0;
          for (std::int64_t i = 0; i < length; ++i) {
            const double d = dy.read<double>(in[0], start + i);
            const double xhat = (x.read<double>(in[1], start + i) - m) * r;
            const double g = d * scale.read<double>(in[2], i);
            scale_sum[i] += d * xhat;
            bias_sum[i] += d;
            g_mean += g;
            g_xhat_mean += g * xhat;
          }
          g_mean /= static_cast<double>(length);
          g_xhat_mean /= static_cast<double>(length);
          void* result = out_buffer(arguments, 0);
          for (std::int64_t i = 0; result != nullptr && i < length; ++i) {
            const double xhat = (x.read<double>(in[1], start + i) - m) * r;
            const double g = dy.read<double>(in[0], start + i) * scale.read<double>(in[2], i);
            dx.write<double>(result, start + i, r * (g - g_mean - xhat * g_xhat_mean));
          }
        }
        if (void* result = out_buffer(arguments, 1)) dscale.pack(scale_sum, result);
        if (void* result = out_buffer(arguments, 2)) dbias.pack(bias_sum, result);
      },
      doubles_bytes(2 * rows.length));
}

}  // namespace mezzo::kernels::reference
