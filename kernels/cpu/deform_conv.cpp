// DeformConv of float32, float16 and bfloat16 in two spatial dims. Letters as in the reference:
// x[N,C,H,W], w[M,C/G,K,L], offset[N,F K L 2,P,Q], b[M]?, mask[N,F K L,P,Q]? -> y[N,M,P,Q].
//
// A unit is a block of result pixels of one image. What every kernel element sees there is found by
// index, channel by channel, into columns [C K L][pixels]; each result is a weighted sum of those
// rows. Operands in 16 bits are unpacked first.
//
// Workspace: x and w as floats where they are not; per thread the columns and one table.
#include <array>
#include <cmath>

#include "kernels/cpu/common.h"
#include "kernels/cpu/number_at.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kPixels = 64;  // of the result per unit

struct Plan {
  const Isa* isa = nullptr;
  DType x = DType::kNone, w = DType::kNone, offset = DType::kNone, bias = DType::kNone,
        mask = DType::kNone, y = DType::kNone;
  Int batches = 0, channels = 0, height = 0, width = 0, results = 0, rows = 0, columns = 0;
  Int kernel_rows = 0, kernel_columns = 0, groups = 1, offset_groups = 1;
  std::array<Int, 2> strides{1, 1}, dilations{1, 1}, pads{0, 0};
  int threads = 1;

  Int taps() const { return kernel_rows * kernel_columns; }
  Int in_pixels() const { return height * width; }
  Int out_pixels() const { return rows * columns; }
  Int depth() const { return channels / groups * taps(); }
  Int x_elems() const { return batches * channels * in_pixels(); }
  Int unpacked_x() const { return x == DType::kFloat32 ? 0 : padded_floats(x_elems()); }
  Int unpacked_w() const { return w == DType::kFloat32 ? 0 : padded_floats(results * depth()); }
  Int block() const { return std::min(kPixels, out_pixels()); }
  Int room() const {
    return padded_floats(channels * taps() * block()) + 9 * padded_floats(block());
  }
};

struct Room {
  float* seen;            // [channels taps][block]
  std::int32_t* indices;  // [4][n]
  float* weights;         // [4][n]
  float* sums;            // [n]

  Room(const Plan& plan, float* at)
      : seen(at),
        indices(reinterpret_cast<std::int32_t*>(
            at + padded_floats(plan.channels * plan.taps() * plan.block()))),
        weights(reinterpret_cast<float*>(indices) + 4 * padded_floats(plan.block())),
        sums(weights + 4 * padded_floats(plan.block())) {}
};

// The four pixels around a point, those outside with weight 0.
void write_corners(const Plan& plan, double row, double column, double factor, Int i, Int n,
                   const Room& room) {
  const bool inside = row > -1 && row < static_cast<double>(plan.height) && column > -1 &&
                      column < static_cast<double>(plan.width);
  const double top = inside ? std::floor(row) : 0.0, left = inside ? std::floor(column) : 0.0;
  for (Int corner = 0; corner < 4; ++corner) {
    const Int h = static_cast<Int>(top) + corner / 2, v = static_cast<Int>(left) + corner % 2;
    const bool used = inside && h >= 0 && h < plan.height && v >= 0 && v < plan.width;
    const double weight = factor * (corner / 2 == 1 ? row - top : 1 - (row - top)) *
                          (corner % 2 == 1 ? column - left : 1 - (column - left));
    room.indices[corner * n + i] = used ? static_cast<std::int32_t>(h * plan.width + v) : 0;
    room.weights[corner * n + i] = used ? static_cast<float>(weight) : 0.0F;
  }
}

// Fills the columns of pixels [first, first + n) of one image.
void look(const Plan& plan, const KernelArguments& arguments, const float* x, Int image, Int first,
          Int n, const Room& room) {
  const void* mask = in_buffer(arguments, 4);
  const Int per_group = plan.channels / plan.offset_groups;
  for (Int f = 0; f < plan.offset_groups; ++f) {
    for (Int tap = 0; tap < plan.taps(); ++tap) {
      const Int at = (image * plan.offset_groups + f) * plan.taps() + tap;
      const Int down = tap / plan.kernel_columns * plan.dilations[0] - plan.pads[0];
      const Int across = tap % plan.kernel_columns * plan.dilations[1] - plan.pads[1];
      for (Int i = 0; i < n; ++i) {
        const Int pixel = first + i;
        const Int start = pixel / plan.columns * plan.strides[0] + down;
        const double row =
            static_cast<double>(start) +
            number_at(arguments.inputs[2], plan.offset, 2 * at * plan.out_pixels() + pixel);
        const double column =
            static_cast<double>(pixel % plan.columns * plan.strides[1] + across) +
            number_at(arguments.inputs[2], plan.offset, (2 * at + 1) * plan.out_pixels() + pixel);
        const double factor =
            mask == nullptr ? 1.0 : number_at(mask, plan.mask, at * plan.out_pixels() + pixel);
        write_corners(plan, row, column, factor, i, n, room);
      }
      for (Int c = f * per_group; c < (f + 1) * per_group; ++c) {
        plan.isa->blend_taps(x + (image * plan.channels + c) * plan.in_pixels(), room.indices,
                             room.weights, 4, room.seen + (c * plan.taps() + tap) * n, n);
      }
    }
  }
}

// y[m] = w[m] x columns of its group + b[m].
void multiply(const Plan& plan, const KernelArguments& arguments, const float* w, Int image,
              Int first, Int n, const Room& room, const float** rows) {
  const void* bias = in_buffer(arguments, 3);
  const Int depth = plan.depth();
  const Int per_group = plan.results / plan.groups;
  for (Int g = 0; g < plan.groups; ++g) {
    for (Int i = 0; i < depth; ++i) rows[i] = room.seen + (g * depth + i) * n;
    for (Int m = g * per_group; m < (g + 1) * per_group; ++m) {
      plan.isa->blend_rows(rows, w + m * depth, depth, room.sums, n);
      if (bias != nullptr) {
        const auto add = static_cast<float>(number_at(bias, plan.bias, m));
        for (Int i = 0; i < n; ++i) room.sums[i] += add;
      }
      const Int to = (image * plan.results + m) * plan.out_pixels() + first;
      plan.isa->pack(plan.y, room.sums, at(arguments.outputs[0], to, plan.y), n);
    }
  }
}

void run_deform(const Plan& plan, const KernelArguments& arguments) {
  auto* workspace = static_cast<float*>(arguments.workspace);
  const float* x = floats(*plan.isa, plan.x, arguments.inputs[0], 0, plan.x_elems(), workspace);
  const float* w = floats(*plan.isa, plan.w, arguments.inputs[1], 0, plan.results * plan.depth(),
                          workspace + plan.unpacked_x());
  float* rooms = workspace + plan.unpacked_x() + plan.unpacked_w();
  const Int pointers = padded_floats(2 * plan.depth());  // as floats of four bytes
  const Int stride = plan.room() + pointers;
  const Int blocks = ceil_div(plan.out_pixels(), kPixels);
  parallel_units(plan.batches * blocks, plan.threads, [&](Int unit, int thread) {
    float* own = rooms + thread * stride;
    const Int first = unit % blocks * kPixels;
    const Int n = std::min(kPixels, plan.out_pixels() - first);
    const Room room(plan, own);
    look(plan, arguments, x, unit / blocks, first, n, room);
    multiply(plan, arguments, w, unit / blocks, first, n, room,
             reinterpret_cast<const float**>(own + plan.room()));
  });
}

Plan read_plan(const KernelRequest& request, const Isa& isa) {
  const Dims& x = request.inputs[0].dims;
  const Dims& w = request.inputs[1].dims;
  const Dims& y = request.outputs[0].dims;
  Plan plan;
  plan.isa = &isa;
  plan.x = request.inputs[0].dtype;
  plan.w = request.inputs[1].dtype;
  plan.offset = request.inputs[2].dtype;
  plan.bias = in_desc(request, 3).dtype;
  plan.mask = in_desc(request, 4).dtype;
  plan.y = request.outputs[0].dtype;
  plan.batches = x[0];
  plan.channels = x[1];
  plan.height = x[2];
  plan.width = x[3];
  plan.results = w[0];
  plan.kernel_rows = w[2];
  plan.kernel_columns = w[3];
  plan.rows = y[2];
  plan.columns = y[3];
  plan.groups = request.attributes.get_int("group", 1);
  plan.offset_groups = request.attributes.get_int("offset_group", 1);
  const Dims strides = request.attributes.get_ints("strides", {1, 1});
  const Dims dilations = request.attributes.get_ints("dilations", {1, 1});
  const Dims pads = request.attributes.get_ints("pads", {0, 0, 0, 0});
  for (std::size_t d = 0; d < 2; ++d) {
    plan.strides[d] = strides[d];
    plan.dilations[d] = dilations[d];
    plan.pads[d] = pads[d];
  }
  plan.threads = threads_for(request.outputs[0].elems() * plan.depth(), request.threads);
  return plan;
}

}  // namespace

Prepared prepare_deform_conv(const KernelRequest& request, const Isa& isa) {
  // Offsets, biases and masks may be double.
  if (!is_packed_float(request.inputs[0].dtype) || !is_packed_float(request.inputs[1].dtype) ||
      !is_packed_float(request.outputs[0].dtype)) {
    return unimplemented("elements of another dtype");
  }
  if (request.outputs[0].elems() == 0 || request.inputs[0].elems() == 0) {
    return unimplemented("nothing to see");
  }
  const Plan plan = read_plan(request, isa);
  constexpr Int kMostPixels = (Int{1} << 31) - 1;
  constexpr Int kMostSeen = Int{1} << 28;
  if (plan.in_pixels() > kMostPixels || plan.channels > kMostSeen / plan.taps() / plan.block()) {
    return unimplemented("too much for one unit");
  }
  const Int stride = plan.room() + padded_floats(2 * plan.depth());
  const Int floats_needed = plan.unpacked_x() + plan.unpacked_w() + stride * plan.threads;
  return make_kernel(isa, static_cast<std::size_t>(floats_needed) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run_deform(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
