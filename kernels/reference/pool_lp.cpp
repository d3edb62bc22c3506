// LpPool, GlobalLpPool and LpPool's gradient: y = (sum over the window of |x|^p)^(1/p). Padding
// adds nothing.
#include <cmath>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/pool_shape.h"

namespace mezzo::kernels::reference {
namespace {

// |x|^p and its inverse, with the common norms apart: pow() rounds more than they do.
struct Norm {
  double p;

  double power(double x) const {
    if (p == 1.0) return std::fabs(x);
    return p == 2.0 ? x * x : std::pow(std::fabs(x), p);
  }
  double root(double sum) const {
    if (p == 1.0) return sum;
    return p == 2.0 ? std::sqrt(sum) : std::pow(sum, 1.0 / p);
  }
  // dy/dx = sign(x) (|x| / y)^(p - 1); 0 where a window holds zeros alone, and at kinks.
  double slope(double x, double y) const {
    if (x == 0.0 || y == 0.0) return 0.0;
    const double ratio = x / y;
    if (p == 2.0) return ratio;
    return std::copysign(p == 1.0 ? 1.0 : std::pow(std::fabs(ratio), p - 1.0), x);
  }
};

StatusOr<Norm> read_norm(const Operands& operands) {
  const double p = operands.attributes().get_float("p", 2.0);
  if (p > 0.0 && std::isfinite(p)) return Norm{p};
  return operands.error("attribute 'p' is " + std::to_string(p) + ", expected a positive number");
}

}  // namespace

PreparedKernel prepare_lp_pool(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  MEZZO_ASSIGN_OR_RETURN(const PoolShape shape, read_pool(operands, operands.in(0)));
  MEZZO_ASSIGN_OR_RETURN(const Norm norm, read_norm(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, pooled_dims(operands.in(0).dims, shape.windows)));
  return make_kernel([shape, norm, x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    const std::int64_t pixels = shape.windows.in_pixels();
    for_each_window(shape, [&](std::int64_t plane, const auto& window, std::int64_t place) {
      double sum = 0.0;
      for_each_inside(shape.windows, window, [&](std::int64_t pixel) {
        sum += norm.power(x.read<double>(arguments.inputs[0], plane * pixels + pixel));
      });
      y.write<double>(arguments.outputs[0], place, norm.root(sum));
    });
  });
}

// Workspace: dx as doubles.
PreparedKernel prepare_lp_pool_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f x:f y:f -> dx:f"));
  const Dims& dims = operands.in(1).dims;
  MEZZO_ASSIGN_OR_RETURN(const PoolShape shape, read_pool(operands, operands.in(1)));
  MEZZO_ASSIGN_OR_RETURN(const Norm norm, read_norm(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(0, pooled_dims(dims, shape.windows)));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, pooled_dims(dims, shape.windows)));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  return make_kernel(
      [shape, norm, dy = Elements(operands.in(0)), x = Elements(operands.in(1)),
       y = Elements(operands.in(2)),
       dx = Elements(operands.out(0))](const KernelArguments& arguments) {
        auto* sums = static_cast<double*>(arguments.workspace);
        std::fill_n(sums, dx.count(), 0.0);
        const std::int64_t pixels = shape.windows.in_pixels();
        for_each_window(shape, [&](std::int64_t plane, const auto& window, std::int64_t place) {
          const double gradient = dy.read<double>(arguments.inputs[0], place);
          const double pooled = y.read<double>(arguments.inputs[2], place);
          for_each_inside(shape.windows, window, [&](std::int64_t pixel) {
            const std::int64_t at = plane * pixels + pixel;
            sums[at] += gradient * norm.slope(x.read<double>(arguments.inputs[1], at), pooled);
          });
        });
        dx.pack(sums, arguments.outputs[0]);
      },
      doubles_bytes(operands.in(1).elems()));
}

PreparedKernel prepare_global_lp_pool(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  MEZZO_ASSIGN_OR_RETURN(const Norm norm, read_norm(operands));
  const Dims& dims = operands.in(0).dims;
  Dims pooled(dims.size(), 1);
  pooled[0] = dims[0];
  pooled[1] = dims[1];
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, pooled));
  std::int64_t pixels = 1;
  for (std::size_t i = 2; i < dims.size(); ++i) pixels *= dims[i];
  return make_kernel([pixels, norm, x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for (std::int64_t plane = 0; plane < y.count(); ++plane) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < pixels; ++i) {
        sum += norm.power(x.read<double>(arguments.inputs[0], plane * pixels + i));
      }
      y.write<double>(arguments.outputs[0], plane, norm.root(sum));
    }
  });
}

}  // namespace mezzo::kernels::reference
