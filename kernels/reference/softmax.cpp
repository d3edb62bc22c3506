// Softmax and LogSoftmax along one axis (the meaning of opset 13) and their gradients.
//
// The largest element is subtracted first, so exp never overflows. Letters: O outer, D along the
// axis, I inner.
#include <cmath>
#include <limits>

#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/lines.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
PreparedKernel prepare_softmax(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  MEZZO_ASSIGN_OR_RETURN(const Lines lines, read_lines(operands));
  return make_kernel([lines, logarithm = request.op == "LogSoftmax", x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    lines.for_each_line([&](std::int64_t start) {
      const auto at = [&](std::int64_t i) {
        return x.read<double>(arguments.inputs[0], start + i * lines.inner);
      };
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t i = 0; i < lines.length; ++i) largest = std::fmax(largest, at(i));
      double sum = 0.0;
      for (std::int64_t i = 0; i < lines.length; ++i) sum += std::exp(at(i) - largest);
      const double log_sum = std::log(sum);
      for (std::int64_t i = 0; i < lines.length; ++i) {
        const double shifted = at(i) - largest;
        y.write<double>(arguments.outputs[0], start + i * lines.inner,
                        logarithm ? shifted - log_sum : std::exp(shifted) / sum);
      }
    });
  });
}

//   Softmax:    dx = y (dy - sum of dy y)        LogSoftmax: dx = dy - exp(y) sum of dy
PreparedKernel prepare_softmax_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f y:f -> dx:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, operands.in(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  MEZZO_ASSIGN_OR_RETURN(const Lines lines, read_lines(operands));
  return make_kernel([lines, logarithm = request.op == "LogSoftmaxGrad",
                      dy = Elements(operands.in(0)), y = Elements(operands.in(1)),
                      dx = Elements(operands.out(0))](const KernelArguments& arguments) {
    lines.for_each_line([&](std::int64_t start) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < lines.length; ++i) {
        const std::int64_t place = start + i * lines.inner;
        const double g = dy.read<double>(arguments.inputs[0], place);
        sum += logarithm ? g : g * y.read<double>(arguments.inputs[1], place);
      }
      for (std::int64_t i = 0; i < lines.length; ++i) {
        const std::int64_t place = start + i * lines.inner;
        const double g = dy.read<double>(arguments.inputs[0], place);
        const double value = y.read<double>(arguments.inputs[1], place);
        dx.write<double>(arguments.outputs[0], place,
                         logarithm ? g - std::exp(value) * sum : value * (g - sum));
      }
    });
  });
}

}  // namespace mezzo::kernels::reference
