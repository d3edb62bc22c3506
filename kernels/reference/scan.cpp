// CumSum and CumProd along one axis, in double (integers exactly, wrapping when stored); every
// result is rounded once. And CumProd's gradient.
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/lines.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

// Products wrap as the stored low 64 bits ask.
Integer multiply(Integer a, Integer b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
double multiply(double a, double b) { return a * b; }

struct Scan {
  Lines lines;
  bool product = false;
  bool exclusive = false;  // without the element itself
  bool reverse = false;    // from the end
};

template <typename T>
PreparedKernel scan_kernel(const Operands& operands, const Scan& scan) {
  return make_kernel([scan, x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    const Lines& lines = scan.lines;
    lines.for_each_line([&](std::int64_t start) {
      T so_far = scan.product ? T{1} : T{0};
      for (std::int64_t step = 0; step < lines.length; ++step) {
        const std::int64_t place = scan.reverse ? lines.length - 1 - step : step;
        const std::int64_t at = start + place * lines.inner;
        // Read before the result is written: they may lie in one buffer.
        const T value = x.read<T>(arguments.inputs[0], at);
        const T next = scan.product ? multiply(so_far, value) : so_far + value;
        y.write<T>(arguments.outputs[0], at, scan.exclusive ? so_far : next);
        so_far = next;
      }
    });
  });
}

}  // namespace

PreparedKernel prepare_scan(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:n -> y:n"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  Scan scan;
  scan.product = request.op == "CumProd";
  MEZZO_ASSIGN_OR_RETURN(scan.lines, read_lines(operands, 0));
  MEZZO_ASSIGN_OR_RETURN(scan.exclusive, operands.flag("exclusive", false));
  MEZZO_ASSIGN_OR_RETURN(scan.reverse, operands.flag("reverse", false));
  return is_integer(operands.in(0).dtype) ? scan_kernel<Integer>(operands, scan)
                                          : scan_kernel<double>(operands, scan);
}

// With p_i the product of the elements before i, y_i = p_i x_i and
//   dx_i = p_i s_i, s_i = dy_i + x_(i+1) s_(i+1): no division, so zeros are no exception.
// Exclusive, y_i = p_i: s_i = dy_(i+1) + x_(i+1) s_(i+1), and 0 at the end. dy, x -> dx.
// Workspace: the products of a line.
PreparedKernel prepare_cum_prod_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f x:f -> dx:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, operands.in(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  MEZZO_ASSIGN_OR_RETURN(const Lines lines, read_lines(operands, 0));
  MEZZO_ASSIGN_OR_RETURN(const bool exclusive, operands.flag("exclusive", false));
  MEZZO_ASSIGN_OR_RETURN(const bool reverse, operands.flag("reverse", false));
  return make_kernel(
      [lines, exclusive, reverse, dy = Elements(operands.in(0)), x = Elements(operands.in(1)),
       dx = Elements(operands.out(0))](const KernelArguments& arguments) {
        auto* products = static_cast<double*>(arguments.workspace);
        lines.for_each_line([&](std::int64_t start) {
          const auto at = [&](std::int64_t i) {
            return start + (reverse ? lines.length - 1 - i : i) * lines.inner;
          };
          double product = 1.0;
          for (std::int64_t i = 0; i < lines.length; ++i) {
            products[i] = product;
            product *= x.read<double>(arguments.inputs[1], at(i));
          }
          double sum = 0.0;  // x_(i+1) s_(i+1), with dy_(i+1) added if exclusive
          for (std::int64_t i = lines.length - 1; i >= 0; --i) {
            const double d = dy.read<double>(arguments.inputs[0], at(i));
            const double value = x.read<double>(arguments.inputs[1], at(i));
            const double s = exclusive ? sum : d + sum;
            dx.write<double>(arguments.outputs[0], at(i), products[i] * s);
            sum = exclusive ? d + value * s : value * s;
          }
        });
      },
      doubles_bytes(lines.length));
}

}  // namespace mezzo::kernels::reference
