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

  // A gradient's operands begin behind dy, and it has no bias.
  explicit DeformPlan(const Operands& operands, std::size_t first = 0)
      : x(operands.in(first)),
        w(operands.in(first + 1)),
        offset(operands.in(first + 2)),
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
  std::array<double, 4> weights{}, down{}, across{};  // weights, their slopes by row and column
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
    const double vertical = below ? row - top : 1 - (row - top);
    const double horizontal = right ? column - left : 1 - (column - left);
    taps.weights[to] = factor * vertical * horizontal;
    taps.down[to] = factor * (below ? horizontal : -horizontal);
    taps.across[to] = factor * (right ? vertical : -vertical);
  }
  return taps;
}

// Where the operands are in a request: of the forward operator, or behind the gradient's dy.
struct DeformBuffers {
  const void *x, *w, *offset, *mask;
};

// Place `at` = (image, offset group, tap) of the result pixel's offsets, in elements of the mask.
struct TapPlace {
  Int at, pixel;
};

double mask_at(const DeformPlan& plan, const DeformBuffers& in, TapPlace place) {
  return in.mask == nullptr
             ? 1.0
             : plan.mask.read<double>(in.mask, place.at * plan.out_pixels() + place.pixel);
}

// What a tap reads, times `factor`.
Bilinear taps_at(const DeformPlan& plan, const DeformBuffers& in, TapPlace place, Int tap,
                 double factor) {
  const Int p = place.pixel / plan.across.out, q = place.pixel % plan.across.out;
  const double row =
      static_cast<double>(plan.down.position(p, tap / plan.across.kernel)) +
      plan.offset.read<double>(in.offset, 2 * place.at * plan.out_pixels() + place.pixel);
  const double column =
      static_cast<double>(plan.across.position(q, tap % plan.across.kernel)) +
      plan.offset.read<double>(in.offset, (2 * place.at + 1) * plan.out_pixels() + place.pixel);
  return bilinear(row, column, plan.down.in, plan.across.in, factor);
}

// seen[c][tap] for a result pixel of image n.
void look(const DeformPlan& plan, const DeformBuffers& in, Int n, Int pixel, double* seen) {
  const Int per_group = plan.channels / plan.offset_groups;
  for (Int f = 0; f < plan.offset_groups; ++f) {
    for (Int tap = 0; tap < plan.taps(); ++tap) {
      const TapPlace place = {(n * plan.offset_groups + f) * plan.taps() + tap, pixel};
      const Bilinear taps = taps_at(plan, in, place, tap, mask_at(plan, in, place));
      for (Int c = f * per_group; c < (f + 1) * per_group; ++c) {
        double sum = 0.0;
        for (std::size_t t = 0; t < static_cast<std::size_t>(taps.count); ++t) {
          sum += taps.weights[t] *
                 plan.x.read<double>(in.x,
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
  const DeformBuffers in = {arguments.inputs[0], arguments.inputs[1], arguments.inputs[2],
                            in_buffer(arguments, 4)};
  const Int depth = plan.channels / plan.groups * plan.taps();
  for (Int n = 0; n < plan.batches; ++n) {
    for (Int pixel = 0; pixel < plan.out_pixels(); ++pixel) {
      look(plan, in, n, pixel, seen);
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

// Sets windows, counts and groups from x, w and the attributes, and checks the other operands.
Status read_deform(const Operands& operands, const TensorDesc& x_desc, const TensorDesc& w_desc,
                   DeformPlan& plan) {
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const Dims& x = x_desc.dims;
  const Dims& w = w_desc.dims;
  if (x.size() != 4 || w.size() != 4) {
    return unimplemented(operands.op() + ": x and w of rank 4 are supported, got " +
                         format_dims(x) + " and " + format_dims(w));
  }
  MEZZO_ASSIGN_OR_RETURN(Windows windows, read_windows(operands, {x[2], x[3]}, {w[2], w[3]}));
  MEZZO_RETURN_IF_ERROR(set_window_counts(operands, false, windows));
  plan.down = windows.axis[1];
  plan.across = windows.axis[2];
  plan.batches = x[0];
  plan.channels = x[1];
  plan.results = w[0];
  plan.groups = operands.attributes().get_int("group", 1);
  plan.offset_groups = operands.attributes().get_int("offset_group", 1);
  if (plan.groups < 1 || plan.offset_groups < 1 || x[1] % plan.groups != 0 ||
      w[0] % plan.groups != 0 || x[1] % plan.offset_groups != 0 || w[0] == 0 ||
      w[1] != x[1] / plan.groups) {
    return operands.error("x " + format_dims(x) + ", w " + format_dims(w) + ", group " +
                          std::to_string(plan.groups) + " and offset_group " +
                          std::to_string(plan.offset_groups) + " do not go together");
  }
  return ok_status();
}

// Dims of the operands that follow from the plan.
Dims offset_dims(const DeformPlan& plan) {
  return {plan.batches, plan.offset_groups * plan.taps() * 2, plan.down.out, plan.across.out};
}
Dims mask_dims(const DeformPlan& plan) {
  return {plan.batches, plan.offset_groups * plan.taps(), plan.down.out, plan.across.out};
}
Dims result_dims(const DeformPlan& plan) {
  return {plan.batches, plan.results, plan.down.out, plan.across.out};
}

}  // namespace

PreparedKernel prepare_deform_conv(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:f w:f offset:f b?:f mask?:f -> y:f"));
  DeformPlan plan(operands);
  MEZZO_RETURN_IF_ERROR(read_deform(operands, operands.in(0), operands.in(1), plan));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, offset_dims(plan)));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(3, {plan.results}));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(4, mask_dims(plan)));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, result_dims(plan)));
  return make_kernel([plan](const KernelArguments& arguments) { run_deform(plan, arguments); },
                     doubles_bytes(operands.in(1).elems() + plan.channels * plan.taps()));
}

namespace {

struct DeformGradPlan : DeformPlan {
  Elements dy, results_of[4];  // dx, dw, doffset, dmask

  explicit DeformGradPlan(const Operands& operands)
      : DeformPlan(operands, 1),
        dy(operands.in(0)),
        results_of{Elements(operands.out(0)), Elements(operands.out(1)), Elements(operands.out(2)),
                   Elements(operands.out(3))} {}
};

// The tap's part of the gradients, from those of what it reads in every channel: dseen[c][tap].
void spread_tap(const DeformGradPlan& plan, const DeformBuffers& in, Int n, TapPlace place, Int f,
                Int tap, const double* dseen, double* const sums[4]) {
  const double factor = mask_at(plan, in, place);
  const Bilinear plain = taps_at(plan, in, place, tap, 1.0);
  const Int per_group = plan.channels / plan.offset_groups;
  double dmask = 0.0, ddown = 0.0, dacross = 0.0;
  for (Int c = f * per_group; c < (f + 1) * per_group; ++c) {
    const double gradient = dseen[c * plan.taps() + tap];
    const Int start = (n * plan.channels + c) * plan.in_pixels();
    for (std::size_t t = 0; t < static_cast<std::size_t>(plain.count); ++t) {
      const double x = plan.x.read<double>(in.x, start + plain.offsets[t]);
      sums[0][start + plain.offsets[t]] += gradient * factor * plain.weights[t];
      ddown += gradient * factor * plain.down[t] * x;
      dacross += gradient * factor * plain.across[t] * x;
      dmask += gradient * plain.weights[t] * x;
    }
  }
  const Int pixels = plan.out_pixels();
  sums[2][2 * place.at * pixels + place.pixel] = ddown;
  sums[2][(2 * place.at + 1) * pixels + place.pixel] = dacross;
  if (sums[3] != nullptr) sums[3][place.at * pixels + place.pixel] = dmask;
}

void run_deform_grad(const DeformGradPlan& plan, const KernelArguments& arguments) {
  const DeformBuffers in = {arguments.inputs[1], arguments.inputs[2], arguments.inputs[3],
                            in_buffer(arguments, 4)};
  auto* weights = static_cast<double*>(arguments.workspace);
  double* seen = weights + plan.w.count();
  double* dseen = seen + plan.channels * plan.taps();
  double* next = dseen + plan.channels * plan.taps();
  double* sums[4];
  const Int counts[4] = {plan.x.count(), plan.w.count(), plan.offset.count(),
                         in.mask == nullptr ? 0 : plan.mask.count()};
  for (int i = 0; i < 4; ++i) {
    sums[i] = i == 3 && in.mask == nullptr ? nullptr : next;
    std::fill_n(next, counts[i], 0.0);
    next += counts[i];
  }
  plan.w.unpack(in.w, weights);
  const Int depth = plan.channels / plan.groups * plan.taps();
  for (Int n = 0; n < plan.batches; ++n) {
    for (Int pixel = 0; pixel < plan.out_pixels(); ++pixel) {
      look(plan, in, n, pixel, seen);
      std::fill_n(dseen, plan.channels * plan.taps(), 0.0);
      for (Int m = 0; m < plan.results; ++m) {
        const double dy = plan.dy.read<double>(arguments.inputs[0],
                                               (n * plan.results + m) * plan.out_pixels() + pixel);
        const Int part = m / (plan.results / plan.groups) * depth;
        for (Int i = 0; i < depth; ++i) {
          sums[1][m * depth + i] += dy * seen[part + i];
          dseen[part + i] += dy * weights[m * depth + i];
        }
      }
      for (Int f = 0; f < plan.offset_groups; ++f) {
        for (Int tap = 0; tap < plan.taps(); ++tap) {
          const TapPlace place = {(n * plan.offset_groups + f) * plan.taps() + tap, pixel};
          spread_tap(plan, in, n, place, f, tap, dseen, sums);
        }
      }
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    void* to = out_buffer(arguments, i);
    if (to != nullptr) plan.results_of[i].pack(sums[i], to);
  }
}

}  // namespace

// Workspace: w, then what one result pixel sees and its gradient, then all results as doubles.
PreparedKernel prepare_deform_conv_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request, "dy:f x:f w:f offset:f mask?:f -> dx?:f dw?:f doffset?:f dmask?:f"));
  DeformGradPlan plan(operands);
  MEZZO_RETURN_IF_ERROR(read_deform(operands, operands.in(1), operands.in(2), plan));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(0, result_dims(plan)));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(3, offset_dims(plan)));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(4, mask_dims(plan)));
  Int elems = operands.in(2).elems() + 2 * plan.channels * plan.taps();
  for (std::size_t i = 0; i < 4; ++i) {
    const TensorDesc& like = operands.in(i + 1);
    if (like.present()) elems += like.elems();
    if (!operands.out(i).present()) continue;
    if (!like.present()) return operands.out_error(i, "there is no mask");
    MEZZO_RETURN_IF_ERROR(operands.expect_out(i, like.dims));
  }
  return make_kernel([plan](const KernelArguments& arguments) { run_deform_grad(plan, arguments); },
                     doubles_bytes(elems));
}

}  // namespace mezzo::kernels::reference
