// dx[i] = dy[i] f'(x[i]), from the operand x of the forward function or, where that is cheaper,
// from its result y, by the formulas that the GPU has, too (kernels/formulas/elementwise.h). At
// kinks the derivative is PyTorch's: 0 for Abs at 0, for Relu and LeakyRelu the one from below, 1
// on both ends of Clip.
#include <cmath>

#include "compiler/support/text.h"
#include "kernels/element_program.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
PreparedKernel prepare_unary_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f v:f -> dx:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, operands.in(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  MEZZO_ASSIGN_OR_RETURN(const ElementStatement function,
                         element_operation(request.op, request.attributes));
  return make_kernel([dy = Elements(operands.in(0)), v = Elements(operands.in(1)),
                      dx = Elements(operands.out(0)), function](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < dx.count(); ++i) {
      dx.write<double>(arguments.outputs[0], i,
                       compute_formula(function.op, dy.read<double>(arguments.inputs[0], i),
                                       v.read<double>(arguments.inputs[1], i), 0.0, function.alpha,
                                       function.beta));
    }
  });
}

PreparedKernel prepare_clip_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "dy:f x:f min?:f max?:f -> dx:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, operands.in(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(2));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(3));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  return make_kernel([dy = Elements(operands.in(0)), x = Elements(operands.in(1)),
                      low = Elements(operands.in(2)), high = Elements(operands.in(3)),
                      has_low = operands.in(2).present(), has_high = operands.in(3).present(),
                      dx = Elements(operands.out(0))](const KernelArguments& arguments) {
    const double low_value = has_low ? low.read<double>(arguments.inputs[2], 0) : -HUGE_VAL;
    const double high_value = has_high ? high.read<double>(arguments.inputs[3], 0) : HUGE_VAL;
    for (std::int64_t i = 0; i < dx.count(); ++i) {
      const double value = x.read<double>(arguments.inputs[1], i);
      const bool inside = value >= low_value && value <= high_value;
      dx.write<double>(arguments.outputs[0], i,
                       inside ? dy.read<double>(arguments.inputs[0], i) : 0.0);
    }
  });
}

// dx = dy e x^(e-1); 0 where e is 0, also at x = 0, where the formula would give 0 times infinity.
PreparedKernel prepare_pow_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "dy:f x:f exponent:n -> dx:f"));
  const Dims& dims = operands.in(0).dims;
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  if (!broadcasts_to(operands.in(2).dims, dims)) {
    return operands.in_error(2, "dims " + format_dims(operands.in(2).dims) +
                                    " do not broadcast to " + format_dims(dims));
  }
  return make_kernel(
      [loop = broadcast_loop<4>(
           dims, {&operands.in(0), &operands.in(1), &operands.in(2), &operands.out(0)}),
       dy = Elements(operands.in(0)), x = Elements(operands.in(1)), e = Elements(operands.in(2)),
       dx = Elements(operands.out(0))](const KernelArguments& arguments) {
        for_each(loop, [&](const std::array<std::int64_t, 4>& at) {
          const double exponent = e.read_at<double>(arguments.inputs[2], at[2]);
          const double base = x.read_at<double>(arguments.inputs[1], at[1]);
          const double slope = exponent == 0.0 ? 0.0 : exponent * std::pow(base, exponent - 1.0);
          dx.write_at<double>(arguments.outputs[0], at[3],
                              dy.read_at<double>(arguments.inputs[0], at[0]) * slope);
        });
      });
}

}  // namespace mezzo::kernels::reference
