// LpNormalization along one axis, MeanVarianceNormalization over a set of them. Norms and
// statistics in double, every result rounded once.
#include <cmath>

#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/lines.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {

// y = x / |x|_p; 0 where all of a line is 0.
PreparedKernel prepare_lp_normalization(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  MEZZO_ASSIGN_OR_RETURN(const Lines lines, read_lines(operands));
  const std::int64_t p = request.attributes.get_int("p", 2);
  if (p != 1 && p != 2) {
    return operands.error("attribute 'p' is " + std::to_string(p) + ", expected 1 or 2");
  }
  return make_kernel([lines, p, x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    lines.for_each_line([&](std::int64_t start) {
      const auto at = [&](std::int64_t i) {
        return x.read<double>(arguments.inputs[0], start + i * lines.inner);
      };
      double norm = 0.0;
      for (std::int64_t i = 0; i < lines.length; ++i)
        norm += p == 1 ? std::fabs(at(i)) : at(i) * at(i);
      if (p == 2) norm = std::sqrt(norm);
      for (std::int64_t i = 0; i < lines.length; ++i) {
        y.write<double>(arguments.outputs[0], start + i * lines.inner,
                        norm == 0.0 ? 0.0 : at(i) / norm);
      }
    });
  });
}

// y = (x - mean) / (deviation + 1e-9) over the axes, as ONNX's function body has it; the variance
// is the mean of the squared differences.
PreparedKernel prepare_mean_variance(const KernelRequest& request) {
  constexpr double kEpsilon = 1e-9;
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  const TensorDesc& in = operands.in(0);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, in.dims));
  MEZZO_ASSIGN_OR_RETURN(const Dims axes, operands.axes("axes", {0, 2, 3}, in.dims.size()));
  std::vector<bool> inside(in.dims.size(), axes.empty());
  for (const std::int64_t axis : axes) inside[static_cast<std::size_t>(axis)] = true;
  // Views: x, y.
  Loop<2> outer, inner;
  const Dims x_strides = element_strides(in);
  const Dims y_strides = element_strides(operands.out(0));
  std::int64_t count = 1;
  for (std::size_t d = 0; d < in.dims.size(); ++d) {
    Loop<2>& loop = inside[d] ? inner : outer;
    loop.dims.push_back(in.dims[d]);
    loop.strides[0].push_back(x_strides[d]);
    loop.strides[1].push_back(y_strides[d]);
    if (inside[d]) count *= in.dims[d];
  }
  return make_kernel([outer, inner, count, x = Elements(in),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for_each(outer, [&](const std::array<std::int64_t, 2>& start) {
      const auto value = [&](const std::array<std::int64_t, 2>& at) {
        return x.read_at<double>(arguments.inputs[0], at[0]);
      };
      double mean = 0.0;
      for_each(inner, start, [&](const auto& at) { mean += value(at); });
      mean /= static_cast<double>(count);
      double variance = 0.0;
      for_each(inner, start,
               [&](const auto& at) { variance += (value(at) - mean) * (value(at) - mean); });
      const double deviation = std::sqrt(variance / static_cast<double>(count)) + kEpsilon;
      for_each(inner, start, [&](const auto& at) {
        y.write_at<double>(arguments.outputs[0], at[1], (value(at) - mean) / deviation);
      });
    });
  });
}

}  // namespace mezzo::kernels::reference
