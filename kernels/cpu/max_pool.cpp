// MaxPool with ONNX's indices, and its gradient. Of equal values the first counts, and a NaN before
// any number; a window of padding alone gives -infinity and index -1.
//
// The gradient adds dy at the places the indices name, plane by plane, so that the order of the
// sums is fixed. An index must lie in the plane of its dy.
#include <array>
#include <limits>

#include "kernels/cpu/pool.h"

namespace mezzo::kernels::cpu {
namespace {

struct Plan {
  const Isa* isa = nullptr;
  int threads = 1;
  PoolShape shape;
  DType x = DType::kNone, y = DType::kNone;
  bool wants_indices = false;
};

// Results under way: the greatest values and the pixels they come from, -1 before any.
struct Best {
  alignas(64) float value[kBlock];
  alignas(64) std::int32_t place[kBlock];

  void clear(Int n) {
    std::fill_n(value, n, -std::numeric_limits<float>::infinity());
    std::fill_n(place, n, -1);
  }
};

void run_plane(const Plan& plan, const KernelArguments& arguments, Int plane, float* room) {
  const PoolShape& shape = plan.shape;
  const PoolAxis& depth = shape.axis[0];
  const PoolAxis& height = shape.axis[1];
  const PoolAxis& width = shape.axis[2];
  const Int pixels = shape.large_pixels();
  const float* x = floats(*plan.isa, plan.x, arguments.inputs[0], plane * pixels, pixels, room);
  Best best;
  alignas(64) float spaced[kBlock];
  for (Int row = 0; row < depth.out * height.out; ++row) {
    for (Int tile = 0; tile < width.out; tile += kBlock) {
      const Int count = std::min(kBlock, width.out - tile);
      best.clear(count);
      for_window_rows(shape, row / height.out, row % height.out, [&](Int start) {
        for (Int k = 0; k < width.kernel; ++k) {
          const Range windows = width.windows(k);
          const Int first = std::max(windows.first, tile);
          const Int n = std::min(windows.last, tile + count) - first;
          if (n <= 0) continue;
          const Int pixel = start + width.position(first, k);
          const float* from = x + pixel;
          if (width.stride > 1) {
            plan.isa->take_every(from, width.stride, spaced, n);
            from = spaced;
          }
          plan.isa->max_with_place(from, static_cast<std::int32_t>(pixel),
                                   static_cast<std::int32_t>(width.stride),
                                   best.value + first - tile, best.place + first - tile, n);
        }
      });
      const Int out = plane * shape.small_pixels() + row * width.out + tile;
      plan.isa->pack(plan.y, best.value, at(arguments.outputs[0], out, plan.y), count);
      if (!plan.wants_indices) continue;
      auto* indices = static_cast<std::int64_t*>(arguments.outputs[1]) + out;
      for (Int i = 0; i < count; ++i) {
        indices[i] = best.place[i] < 0 ? -1 : plane * pixels + best.place[i];
      }
    }
  }
}

// One pixel of the result, channels [c, c + count).
void run_pixel(const Plan& plan, const KernelArguments& arguments, Int image, Int od, Int oh,
               Int ow, Int c, Int count, Best& best) {
  const PoolShape& shape = plan.shape;
  const PoolAxis& width = shape.axis[2];
  const Int pixels = shape.large_pixels();
  alignas(64) float room[kBlock];
  best.clear(count);
  const Range taps = width.taps(ow);
  for_window_rows(shape, od, oh, [&](Int start) {
    for (Int k = taps.first; k < taps.last; ++k) {
      const Int pixel = start + width.position(ow, k);
      const Int first = (image * pixels + pixel) * shape.channels + c;
      const float* x = floats(*plan.isa, plan.x, arguments.inputs[0], first, count, room);
      plan.isa->max_with_place(x, static_cast<std::int32_t>(pixel), 0, best.value, best.place,
                               count);
    }
  });
  const Int o = (od * shape.axis[1].out + oh) * width.out + ow;
  const Int out = (image * shape.small_pixels() + o) * shape.channels + c;
  plan.isa->pack(plan.y, best.value, at(arguments.outputs[0], out, plan.y), count);
  if (!plan.wants_indices) return;
  auto* indices = static_cast<std::int64_t*>(arguments.outputs[1]) + out;
  for (Int i = 0; i < count; ++i) {
    const Int plane = image * shape.channels + c + i;
    indices[i] = best.place[i] < 0 ? -1 : plane * pixels + best.place[i];
  }
}

// ---- channels last, no indices: the values alone, whole rows of the image at a time.

// Rows of the image that a row of results needs at most, and what they and the results hold.
Int window_rows(const PoolShape& shape) { return shape.axis[0].kernel * shape.axis[1].kernel; }
Int row_floats(const PoolShape& shape) { return padded_floats(shape.axis[2].in * shape.channels); }
Int value_room(const Plan& plan) {
  const Int results = padded_floats(plan.shape.axis[2].out * plan.shape.channels);
  const Int rows = is_low(plan.x) ? window_rows(plan.shape) * row_floats(plan.shape) : 0;
  return rows + (is_low(plan.y) ? results : 0);
}

constexpr Int kMostRows = 64;  // of a window; larger ones take the general way

// One row of results. `room` as value_room() says: unpacked rows, then results to be packed.
void run_values(const Plan& plan, const KernelArguments& arguments, Int image, Int od, Int oh,
                float* room) {
  const PoolShape& shape = plan.shape;
  const PoolAxis& width = shape.axis[2];
  const Int channels = shape.channels;
  const Int row_elems = width.in * channels;
  std::array<const float*, kMostRows> image_rows;
  Int rows = 0;
  for_window_rows(shape, od, oh, [&](Int start) {
    const Int first = (image * shape.large_pixels() + start) * channels;
    image_rows[static_cast<std::size_t>(rows)] =
        floats(*plan.isa, plan.x, arguments.inputs[0], first, row_elems,
               room + (is_low(plan.x) ? rows * row_floats(shape) : 0));
    ++rows;
  });
  const Int out_row = (od * shape.axis[1].out + oh) * width.out;
  const Int out = (image * shape.small_pixels() + out_row) * channels;
  float* to = float_target(plan.y, arguments.outputs[0], out,
                           room + (is_low(plan.x) ? window_rows(shape) * row_floats(shape) : 0));
  std::array<const float*, kMostRows> taps;
  for (Int ow = 0; ow < width.out; ++ow) {
    float* y = to + ow * channels;
    const Range range = width.taps(ow);
    Int count = 0;
    for (Int r = 0; r < rows; ++r) {
      for (Int k = range.first; k < range.last; ++k) {
        if (count == kMostRows) {  // go on from what they gave
          plan.isa->max_of_rows(taps.data(), count, y, channels);
          taps[0] = y;
          count = 1;
        }
        taps[static_cast<std::size_t>(count++)] =
            image_rows[static_cast<std::size_t>(r)] + width.position(ow, k) * channels;
      }
    }
    if (count == 0) {
      std::fill_n(y, channels, -std::numeric_limits<float>::infinity());
    } else {
      plan.isa->max_of_rows(taps.data(), count, y, channels);
    }
  }
  flush(*plan.isa, plan.y, to, arguments.outputs[0], out, width.out * channels);
}

bool values_alone(const Plan& plan) {
  return plan.shape.channels_last && !plan.wants_indices && window_rows(plan.shape) <= kMostRows;
}

void run_plan(const Plan& plan, const KernelArguments& arguments) {
  const PoolShape& shape = plan.shape;
  const Int planes = shape.n * shape.channels;
  const int threads = threads_for(planes * shape.large_pixels(), plan.threads);
  if (!shape.channels_last) {
    const Int width = padded_floats(shape.large_pixels());
    parallel_units(planes, threads, [&](Int plane, int thread) {
      run_plane(plan, arguments, plane, thread_part(arguments.workspace, thread, width));
    });
    return;
  }
  const Int rows = shape.axis[0].out * shape.axis[1].out;
  if (values_alone(plan)) {
    parallel_units(shape.n * rows, threads, [&](Int unit, int thread) {
      run_values(plan, arguments, unit / rows, unit % rows / shape.axis[1].out,
                 unit % shape.axis[1].out,
                 thread_part(arguments.workspace, thread, value_room(plan)));
    });
    return;
  }
  parallel_units(shape.n * rows, threads, [&](Int unit, int) {
    Best best;
    const Int od = unit % rows / shape.axis[1].out;
    const Int oh = unit % shape.axis[1].out;
    for (Int ow = 0; ow < shape.axis[2].out; ++ow) {
      for (Int c = 0; c < shape.channels; c += kBlock) {
        run_pixel(plan, arguments, unit / rows, od, oh, ow, c, std::min(kBlock, shape.channels - c),
                  best);
      }
    }
  });
}

// ---- gradient

struct GradPlan {
  const Isa* isa = nullptr;
  int threads = 1;
  Int n = 1, channels = 1, large = 1, small = 1;  // pixels of dx and dy
  bool channels_last = false;
  DType dy = DType::kNone, dx = DType::kNone;

  static constexpr Int kColumns = 64;
  // Channels of one image that a unit works on, and the units of an image.
  Int columns() const { return channels_last ? std::min(channels, kColumns) : 1; }
  Int units() const { return n * ceil_div(channels, columns()); }
  Int room_floats() const { return padded_floats(large * columns()); }
};

Status bad_index(Int element, Int index, Int plane, Int pixels) {
  return invalid_argument(
      "MaxPoolGrad, operand 1 'indices': element " + std::to_string(element) + " is " +
      std::to_string(index) + ", expected " + std::to_string(plane * pixels) + " to " +
      std::to_string((plane + 1) * pixels - 1) + ", the elements of its own plane");
}

// The element of dy whose index is wrong, or -1.
Int add_unit(const GradPlan& plan, const KernelArguments& arguments, Int unit, float* room) {
  const Int per_image = ceil_div(plan.channels, plan.columns());
  const Int image = unit / per_image;
  const Int c0 = unit % per_image * plan.columns();
  const Int width = std::min(plan.columns(), plan.channels - c0);
  const Int channel_step = plan.channels_last ? 1 : 0;  // between channels of a pixel: width is 1
  const Int pixel_step = plan.channels_last ? plan.channels : 1;
  const auto start_of = [&](Int pixels) {
    return plan.channels_last ? image * pixels * plan.channels + c0
                              : (image * plan.channels + c0) * pixels;
  };
  const Int dx_first = start_of(plan.large);
  const Int dy_first = start_of(plan.small);
  // Sums go to dx itself if it is float32, else to `room`, dense.
  const bool direct = plan.dx == DType::kFloat32;
  float* sums = direct ? static_cast<float*>(arguments.outputs[0]) + dx_first : room;
  const Int sum_step = direct ? pixel_step : width;
  for (Int p = 0; p < plan.large; ++p) std::fill_n(sums + p * sum_step, width, 0.0F);
  const auto* indices = static_cast<const std::int64_t*>(arguments.inputs[1]);
  alignas(64) float dy_room[kBlock];
  const Int at_once = plan.channels_last ? 1 : kBlock;  // pixels that lie together
  for (Int q = 0; q < plan.small; q += at_once) {
    const Int n = std::min(at_once, plan.small - q) * width;
    const Int first = dy_first + q * pixel_step;
    const float* dy = floats(*plan.isa, plan.dy, arguments.inputs[0], first, n, dy_room);
    for (Int i = 0; i < n; ++i) {
      const Int c = i * channel_step;
      const Int plane = image * plan.channels + c0 + c;
      const Int index = indices[first + i];
      if (index == -1) continue;  // a window of padding
      const Int pixel = index - plane * plan.large;
      if (pixel < 0 || pixel >= plan.large) return first + i;
      sums[pixel * sum_step + c] += dy[i];
    }
  }
  if (direct) return -1;
  for (Int p = 0; p < plan.large; p += plan.channels_last ? 1 : plan.large) {
    const Int n = plan.channels_last ? width : plan.large;
    plan.isa->pack(plan.dx, room + p * width,
                   at(arguments.outputs[0], dx_first + p * pixel_step, plan.dx), n);
  }
  return -1;
}

Status run_grad(const GradPlan& plan, const KernelArguments& arguments) {
  const int threads = threads_for(plan.n * plan.channels * plan.large, plan.threads);
  Int wrong = -1;
  parallel_units(plan.units(), threads, [&](Int unit, int thread) {
    float* room = thread_part(arguments.workspace, thread, plan.room_floats());
    const Int element = add_unit(plan, arguments, unit, room);
    if (element < 0) return;
#pragma omp critical(mezzo_max_pool_grad)
    wrong = wrong < 0 ? element : std::min(wrong, element);
  });
  if (wrong < 0) return ok_status();
  const Int plane = plan.channels_last ? wrong / (plan.small * plan.channels) * plan.channels +
                                             wrong % plan.channels
                                       : wrong / plan.small;
  return bad_index(wrong, static_cast<const std::int64_t*>(arguments.inputs[1])[wrong], plane,
                   plan.large);
}

constexpr Int kMostPixels = (Int{1} << 31) - 1;

}  // namespace

Prepared prepare_max_pool(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request, 0, 0b10));
  MEZZO_RETURN_IF_ERROR(expect_one_layout(request));
  Plan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  plan.shape = PoolShape::of(request, request.inputs[0], request.outputs[0]);
  if (plan.shape.large_pixels() > kMostPixels) return unimplemented("2^31 pixels or more");
  plan.x = request.inputs[0].dtype;
  plan.y = request.outputs[0].dtype;
  plan.wants_indices = out_desc(request, 1).present();
  if (plan.wants_indices && request.attributes.get_int("storage_order", 0) != 0) {
    return unimplemented("column-major indices");
  }
  const bool unpacks = !plan.shape.channels_last && is_low(plan.x);
  Int room = unpacks ? padded_floats(plan.shape.large_pixels()) * plan.threads : 0;
  if (values_alone(plan)) room = value_room(plan) * plan.threads;
  return make_kernel(isa, static_cast<std::size_t>(room) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run_plan(plan, arguments); });
}

Prepared prepare_max_pool_grad(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request, 0b10));
  MEZZO_RETURN_IF_ERROR(expect_one_layout(request));
  const TensorDesc& dx = request.outputs[0];
  GradPlan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  plan.n = dx.dims[0];
  plan.channels = dx.dims[1];
  for (std::size_t dim = 2; dim < dx.dims.size(); ++dim) {
    plan.large *= dx.dims[dim];
    plan.small *= request.inputs[0].dims[dim];
  }
  if (dx.elems() == 0 || request.inputs[0].elems() == 0) return unimplemented("empty operands");
  plan.channels_last = dx.layout == Layout::kChannelsLast;
  plan.dy = request.inputs[0].dtype;
  plan.dx = dx.dtype;
  const Int room = is_low(plan.dx) ? plan.room_floats() * plan.threads : 0;
  return make_kernel(
      isa, static_cast<std::size_t>(room) * sizeof(float),
      [plan](const KernelArguments& arguments) { return run_grad(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
