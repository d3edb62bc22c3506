// DeformConv in two spatial dims. Letters: C channels, M results, G groups, F offset groups, K L
// the kernel, P Q the result: x[N,C,H,W], w[M,C/G,K,L], offset[N,F K L 2,P,Q], b[M]?,
// mask[N,F K L,P,Q]? -> y[N,M,P,Q]. A kernel element reads x at its place plus offset (down, then
// across), bilinearly, zero outside, times the mask. In double, rounded once.
//
// Workspace: w as doubles, then the C K L numbers that one result pixel sees.
#include <array>
#include <cmath>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/reference/window.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

struct DeformPlan {
  Elements x, w, offset, b, mask, y;
  Window down, across;
  Int batches = 0, channels = 0, results = 0, groups = 1, offset_groups = 1;

  explicit DeformPlan(const Operands& operands)
      : x(operands.in(0)),
        w(operands.in(1)),
        offset(operands.in(2)),
        b(operands.in(3)),
        mask(operands.in(4)),
        y(operands.out(0)) {}

  Int taps() const { return down.kernel * across.kernel; }
  Int out_pixels() const { return down.out * across.out; }
  Int in_pixels() const { return down.in * across.in; }
};

struct Bilinear {
  int count = 0;
  std::array<Int, 4> offsets{};
  std::array<double, 4> weights{};
};

Bilinear bilinear(double row, double column, Int height, Int width, double factor) {
  Bilinear taps;
  if (!(row > -1 && row < static_cast<double>(height) && column > -1 &&
        column < static_cast<double>(width))) {
    return taps;
  }
  const double top = std::floor(row), left = std::floor(column);
  for (int corner = 0; corner < 4; ++corner) {
    const bool below = corner >= 2, right = corner % 2 == 1;
    const Int h = static_cast<Int>(top) + (below ? 1 : 0);
    const Int v = static_cast<Int>(left) + (right ? 1 : 0);
    if (h < 0 || h >= height || v < 0 || v >= width) continue;
    const auto to = static_cast<std::size_t>(taps.count++);
    taps.offsets[to] = h * width + v;
    taps.weights[to] = factor * (below ? row - top : 1 - (row - top)) *
                       (right ? column - left : 1 - (column - left));
  }
  return taps;
}

// seen[c][tap] for result pixel (p, q) of image n.
void look(const DeformPlan& plan, const KernelArguments& arguments, Int n, Int p, Int q,
          double* seen) {
  const void* mask = in_buffer(arguments, 4);
  const Int pixel = p * plan.across.out + q;
  const Int per_group = plan.channels / plan.offset_groups;
  for (Int f = 0; f < plan.offset_groups; ++f) {
    for (Int tap = 0; tap < plan.taps(); ++tap) {
      const Int at = (n * plan.offset_groups + f) * plan.taps() + tap;
      const double row =
          static_cast<double>(plan.down.position(p, tap / plan.across.kernel)) +
          plan.offset.read<double>(arguments.inputs[2], 2 * at * plan.out_pixels() + pixel);
      const double column =
          static_cast<double>(plan.across.position(q, tap % plan.across.kernel)) +
          plan.offset.read<double>(arguments.inputs[2], (2 * at + 1) * plan.out_pixels() + pixel);
      const double factor =
          mask == nullptr ? 1.0 : plan.mask.read<double>(mask, at * plan.out_pixels() + pixel);
      const Bilinear taps = bilinear(row, column, plan.down.in, plan.across.in, factor);
      for (Int c = f * per_group; c < (f + 1) * per_group; ++c) {
        double sum = 0.0;
        for (std::size_t t = 0; t < static_cast<std::size_t>(taps.count); ++t) {
          sum += taps.weights[t] *
                 plan.x.read<double>(arguments.inputs[0],
                                     (n * plan.channels + c) * plan.in_pixels() + taps.offsets[t]);
        }
        seen[c * plan.taps() + tap] = sum;
      }
    }
  }
}

void run_deform(const DeformPlan& plan, const KernelArguments& arguments) {
  auto* weights = static_cast<double*>(arguments.workspace);
  double* seen = weights + plan.w.count();
  plan.w.unpack(arguments.inputs[1], weights);
  const void* bias = in_buffer(arguments, 3);
  const Int depth = plan.channels / plan.groups * plan.taps();
  for (Int n = 0; n < plan.batches; ++n) {
    for (Int pixel = 0; pixel < plan.out_pixels(); ++pixel) {
      look(plan, arguments, n, pixel / plan.across.out, pixel % plan.across.out, seen);
      for (Int m = 0; m < plan.results; ++m) {
        double sum = bias == nullptr ? 0.0 : plan.b.read<double>(bias, m);
        const double* part = seen + m / (plan.results / plan.groups) * depth;
        for (Int i = 0; i < depth; ++i) sum += weights[m * depth + i] * part[i];
        plan.y.write<double>(arguments.outputs[0],
                             (n * plan.results + m) * plan.out_pixels() + pixel, sum);
      }
    }
  }
}

}  // namespace

PreparedKernel prepare_deform_conv(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:f w:f offset:f b?:f mask?:f -> y:f"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const Dims& x = operands.in(0).dims;
  const Dims& w = operands.in(1).dims;
  if (x.size() != 4 || w.size() != 4) {
    return unimplemented("DeformConv: x and w of rank 4 are supported, got " + format_dims(x) +
                         " and " + format_dims(w));
  }
  DeformPlan plan(operands);
  MEZZO_ASSIGN_OR_RETURN(Windows windows, read_windows(operands, {x[2], x[3]}, {w[2], w[3]}));
  MEZZO_RETURN_IF_ERROR(set_window_counts(operands, false, windows));
  plan.down = windows.axis[1];
  plan.across = windows.axis[2];
  plan.batches = x[0];
  plan.channels = x[1];
  plan.results = w[0];
  plan.groups = request.attributes.get_int("group", 1);
  plan.offset_groups = request.attributes.get_int("offset_group", 1);
  if (plan.groups < 1 || plan.offset_groups < 1 || x[1] % plan.groups != 0 ||
      w[0] % plan.groups != 0 || x[1] % plan.offset_groups != 0 || w[0] == 0 ||
      w[1] != x[1] / plan.groups) {
    return operands.error("x " + format_dims(x) + ", w " + format_dims(w) + ", group " +
                          std::to_string(plan.groups) + " and offset_group " +
                          std::to_string(plan.offset_groups) + " do not go together");
  }
  const Int out_rows = plan.down.out, out_columns = plan.across.out;
  MEZZO_RETURN_IF_ERROR(
      operands.expect_in(2, {x[0], plan.offset_groups * plan.taps() * 2, out_rows, out_columns}));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(3, {w[0]}));
  MEZZO_RETURN_IF_ERROR(
      operands.expect_in(4, {x[0], plan.offset_groups * plan.taps(), out_rows, out_columns}));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, {x[0], w[0], out_rows, out_columns}));
  return make_kernel([plan](const KernelArguments& arguments) { run_deform(plan, arguments); },
                     doubles_bytes(operands.in(1).elems() + plan.channels * plan.taps()));
}

}  // namespace mezzo::kernels::reference
