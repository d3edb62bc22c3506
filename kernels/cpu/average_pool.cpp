// AveragePool and its gradient. A window divides by the elements it covers, with count_include_pad
// by those of the padding as well; a window without any gives 0.
#include "kernels/cpu/pool.h"

namespace mezzo::kernels::cpu {
namespace {

struct Plan {
  const Isa* isa = nullptr;
  int threads = 1;
  PoolShape shape;
  DType from = DType::kNone, to = DType::kNone;  // x, y or dy, dx
  // 1 / count along the innermost axis, and the counts of the others.
  std::vector<float> width_share;
  std::vector<Int> depth_count, height_count;

  float row_share(Int od, Int oh) const {
    const Int count =
        depth_count[static_cast<std::size_t>(od)] * height_count[static_cast<std::size_t>(oh)];
    return count == 0 ? 0.0F : 1.0F / static_cast<float>(count);
  }
};

// visit(od, oh, row of results)
template <typename Visit>
void for_rows(const PoolShape& shape, Visit&& visit) {
  const Int heights = shape.axis[1].out;
  for (Int row = 0; row < shape.axis[0].out * heights; ++row) visit(row / heights, row % heights);
}

// visit(tap position of the first window, first window, windows) for the taps along a row of the
// image, limited to windows [tile, tile + count).
template <typename Visit>
void for_row_taps(const PoolAxis& width, Int tile, Int count, Visit&& visit) {
  for (Int k = 0; k < width.kernel; ++k) {
    const Range windows = width.windows(k);
    const Int first = std::max(windows.first, tile);
    const Int n = std::min(windows.last, tile + count) - first;
    if (n > 0) visit(width.position(first, k), first, n);
  }
}

void scale_row(const Plan& plan, Int od, Int oh, Int tile, Int count, float* values) {
  const float share = plan.row_share(od, oh);
  const float* along = plan.width_share.data() + tile;
  for (Int i = 0; i < count; ++i) values[i] *= share * along[i];
}

void run_plane(const Plan& plan, const KernelArguments& arguments, Int plane, float* room) {
  const PoolShape& shape = plan.shape;
  const PoolAxis& width = shape.axis[2];
  const Int pixels = shape.large_pixels();
  const float* x = floats(*plan.isa, plan.from, arguments.inputs[0], plane * pixels, pixels, room);
  alignas(64) float sum[kBlock];
  alignas(64) float spaced[kBlock];
  for_rows(shape, [&](Int od, Int oh) {
    for (Int tile = 0; tile < width.out; tile += kBlock) {
      const Int count = std::min(kBlock, width.out - tile);
      std::fill_n(sum, count, 0.0F);
      for_window_rows(shape, od, oh, [&](Int start) {
        for_row_taps(width, tile, count, [&](Int position, Int first, Int n) {
          const float* from = x + start + position;
          if (width.stride > 1) {
            plan.isa->take_every(from, width.stride, spaced, n);
            from = spaced;
          }
          plan.isa->reduce_rows(ReduceOp::kSum, from, 1, n, n, sum + first - tile);
        });
      });
      scale_row(plan, od, oh, tile, count, sum);
      const Int row = od * shape.axis[1].out + oh;
      const Int out = plane * shape.small_pixels() + row * width.out + tile;
      plan.isa->pack(plan.to, sum, at(arguments.outputs[0], out, plan.to), count);
    }
  });
}

void grad_plane(const Plan& plan, const KernelArguments& arguments, Int plane, float* room) {
  const PoolShape& shape = plan.shape;
  const PoolAxis& width = shape.axis[2];
  const Int pixels = shape.large_pixels();
  float* dx = float_target(plan.to, arguments.outputs[0], plane * pixels, room);
  std::fill_n(dx, pixels, 0.0F);
  alignas(64) float share[kBlock];
  for_rows(shape, [&](Int od, Int oh) {
    for (Int tile = 0; tile < width.out; tile += kBlock) {
      const Int count = std::min(kBlock, width.out - tile);
      const Int row = od * shape.axis[1].out + oh;
      const Int from = plane * shape.small_pixels() + row * width.out + tile;
      plan.isa->unpack(plan.from, at(arguments.inputs[0], from, plan.from), share, count);
      scale_row(plan, od, oh, tile, count, share);
      for_window_rows(shape, od, oh, [&](Int start) {
        for_row_taps(width, tile, count, [&](Int position, Int first, Int n) {
          float* to = dx + start + position;
          for (Int i = 0; i < n; ++i) to[i * width.stride] += share[first - tile + i];
        });
      });
    }
  });
  flush(*plan.isa, plan.to, dx, arguments.outputs[0], plane * pixels, pixels);
}

// Channels-last: visit(pixel of the image) for the elements of window (od, oh, ow).
template <typename Visit>
void for_window(const PoolShape& shape, Int od, Int oh, Int ow, Visit&& visit) {
  const PoolAxis& width = shape.axis[2];
  const Range taps = width.taps(ow);
  for_window_rows(shape, od, oh, [&](Int start) {
    for (Int k = taps.first; k < taps.last; ++k) visit(start + width.position(ow, k));
  });
}

float window_share(const Plan& plan, Int od, Int oh, Int ow) {
  return plan.row_share(od, oh) * plan.width_share[static_cast<std::size_t>(ow)];
}

void scale(const Plan& plan, float share, float* values, Int n) {
  const float parameters[2] = {share, 0.0F};
  const float* x = values;
  plan.isa->elementwise(ElementwiseOp::kScale)(&x, values, n, parameters);
}

// A row of results of one image.
void run_row(const Plan& plan, const KernelArguments& arguments, Int image, Int od, Int oh) {
  const PoolShape& shape = plan.shape;
  alignas(64) float sum[kBlock];
  alignas(64) float room[kBlock];
  for (Int ow = 0; ow < shape.axis[2].out; ++ow) {
    for (Int c = 0; c < shape.channels; c += kBlock) {
      const Int count = std::min(kBlock, shape.channels - c);
      std::fill_n(sum, count, 0.0F);
      for_window(shape, od, oh, ow, [&](Int pixel) {
        const Int first = (image * shape.large_pixels() + pixel) * shape.channels + c;
        const float* x = floats(*plan.isa, plan.from, arguments.inputs[0], first, count, room);
        plan.isa->reduce_rows(ReduceOp::kSum, x, 1, count, count, sum);
      });
      scale(plan, window_share(plan, od, oh, ow), sum, count);
      const Int o = (od * shape.axis[1].out + oh) * shape.axis[2].out + ow;
      const Int out = (image * shape.small_pixels() + o) * shape.channels + c;
      plan.isa->pack(plan.to, sum, at(arguments.outputs[0], out, plan.to), count);
    }
  }
}

constexpr Int kColumns = 64;  // channels per unit of the channels-last gradient

// Channels [c, c + count) of one image; sums go to dx itself if it is float32.
void grad_columns(const Plan& plan, const KernelArguments& arguments, Int image, Int c, Int count,
                  float* room) {
  const PoolShape& shape = plan.shape;
  const Int pixels = shape.large_pixels();
  const Int dx_first = image * pixels * shape.channels + c;
  const bool direct = plan.to == DType::kFloat32;
  float* sums = direct ? static_cast<float*>(arguments.outputs[0]) + dx_first : room;
  const Int step = direct ? shape.channels : count;
  for (Int p = 0; p < pixels; ++p) std::fill_n(sums + p * step, count, 0.0F);
  alignas(64) float share[kColumns];
  for_rows(shape, [&](Int od, Int oh) {
    for (Int ow = 0; ow < shape.axis[2].out; ++ow) {
      const Int o = (od * shape.axis[1].out + oh) * shape.axis[2].out + ow;
      const Int from = (image * shape.small_pixels() + o) * shape.channels + c;
      plan.isa->unpack(plan.from, at(arguments.inputs[0], from, plan.from), share, count);
      scale(plan, window_share(plan, od, oh, ow), share, count);
      for_window(shape, od, oh, ow, [&](Int pixel) {
        plan.isa->reduce_rows(ReduceOp::kSum, share, 1, count, count, sums + pixel * step);
      });
    }
  });
  if (direct) return;
  for (Int p = 0; p < pixels; ++p) {
    plan.isa->pack(plan.to, room + p * count,
                   at(arguments.outputs[0], dx_first + p * shape.channels, plan.to), count);
  }
}

void run_plan(const Plan& plan, const KernelArguments& arguments, bool grad) {
  const PoolShape& shape = plan.shape;
  const Int planes = shape.n * shape.channels;
  const int threads = threads_for(planes * shape.large_pixels(), plan.threads);
  if (!shape.channels_last) {
    const Int width = padded_floats(shape.large_pixels());
    parallel_units(planes, threads, [&](Int plane, int thread) {
      float* room = thread_part(arguments.workspace, thread, width);
      grad ? grad_plane(plan, arguments, plane, room) : run_plane(plan, arguments, plane, room);
    });
    return;
  }
  if (!grad) {
    const Int rows = shape.axis[0].out * shape.axis[1].out;
    parallel_units(shape.n * rows, threads, [&](Int unit, int) {
      const Int row = unit % rows;
      run_row(plan, arguments, unit / rows, row / shape.axis[1].out, row % shape.axis[1].out);
    });
    return;
  }
  const Int parts = ceil_div(shape.channels, kColumns);
  const Int width = shape.large_pixels() * kColumns;
  parallel_units(shape.n * parts, threads, [&](Int unit, int thread) {
    const Int c = unit % parts * kColumns;
    grad_columns(plan, arguments, unit / parts, c, std::min(kColumns, shape.channels - c),
                 thread_part(arguments.workspace, thread, width));
  });
}

Prepared prepare(const KernelRequest& request, const Isa& isa, bool grad) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  MEZZO_RETURN_IF_ERROR(expect_one_layout(request));
  const TensorDesc& large = grad ? request.outputs[0] : request.inputs[0];
  const TensorDesc& small = grad ? request.inputs[0] : request.outputs[0];
  Plan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  plan.shape = PoolShape::of(request, large, small);
  plan.from = request.inputs[0].dtype;
  plan.to = request.outputs[0].dtype;
  constexpr Int kMostWindows = Int{1} << 24;  // along an axis: the plan keeps their counts
  for (const PoolAxis& axis : plan.shape.axis) {
    if (axis.out > kMostWindows) return unimplemented("2^24 windows or more along an axis");
  }
  const bool include_pad = request.attributes.get_int("count_include_pad", 0) == 1;
  const auto& [depth, height, width] = plan.shape.axis;
  for (Int o = 0; o < depth.out; ++o) plan.depth_count.push_back(depth.count(o, include_pad));
  for (Int o = 0; o < height.out; ++o) plan.height_count.push_back(height.count(o, include_pad));
  for (Int o = 0; o < width.out; ++o) {
    const Int count = width.count(o, include_pad);
    plan.width_share.push_back(count == 0 ? 0.0F : 1.0F / static_cast<float>(count));
  }
  // The unpacked plane, or the sums of a low dx.
  Int room = 0;
  if (plan.shape.channels_last) {
    if (grad && is_low(plan.to)) room = plan.shape.large_pixels() * kColumns;
  } else if (is_low(grad ? plan.to : plan.from)) {
    room = padded_floats(plan.shape.large_pixels());
  }
  return make_kernel(isa, static_cast<std::size_t>(room * plan.threads) * sizeof(float),
                     [plan = std::move(plan), grad](const KernelArguments& arguments) {
                       run_plan(plan, arguments, grad);
                     });
}

}  // namespace

Prepared prepare_average_pool(const KernelRequest& request, const Isa& isa) {
  return prepare(request, isa, false);
}

Prepared prepare_average_pool_grad(const KernelRequest& request, const Isa& isa) {
  return prepare(request, isa, true);
}

}  // namespace mezzo::kernels::cpu
