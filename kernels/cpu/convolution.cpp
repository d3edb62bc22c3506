// Conv of float64, ConvInteger and QLinearConv, as products: the windows of some pixels become the
// columns of a matrix, one row per channel and tap in the order of the weights, which the weights
// are multiplied with. Letters: N images, G groups of C channels to M channels, P pixels of the
// result.
//
// 8-bit operands become int16 without their zero points first, so that padding is 0.
#include "kernels/cpu/pool.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/quantized.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kMostPixels = 512;              // per unit of work
constexpr Int kWindowBytes = Int{512} << 10;  // of a unit: stays in the second-level cache

struct Plan {
  const Isa* isa = nullptr;
  int threads = 1;
  Int images = 0, groups = 1, c = 0, m = 0;  // c, m: per group
  PoolShape window;
  ProductKind kind = ProductKind::kFloat64;
  bool has_bias = false;
  // 8-bit operands only.
  QuantizedSide x, w;
  bool requantizes = false;
  Requantization to;

  Int depth() const {
    return c * window.axis[0].kernel * window.axis[1].kernel * window.axis[2].kernel;
  }
  Int in_pixels() const { return window.large_pixels(); }
  Int out_pixels() const { return window.small_pixels(); }
  // Pixels per unit.
  Int pixels() const {
    return std::clamp<Int>(kWindowBytes / (depth() * operand_bytes(kind)) / 32 * 32, 32,
                           kMostPixels);
  }
  Int blocks() const { return ceil_div(out_pixels(), pixels()); }
  Int x_elems() const { return images * groups * c * in_pixels(); }
  Int w_elems() const { return groups * m * depth(); }
  // Bytes in the workspace: x and w as int16; per thread the windows, and sums.
  Int bytes_of(Int elems, Int size) const { return padded_floats(elems * size / 4 + 1) * 4; }
  Int shared_bytes() const {
    return kind == ProductKind::kPairs ? bytes_of(x_elems(), 2) + bytes_of(w_elems(), 2) : 0;
  }
  Int window_bytes() const { return bytes_of(pixels() * depth(), operand_bytes(kind)); }
  Int panels_bytes() const { return panel_bytes(*isa, kind, pixels(), depth()); }
  Int sums_bytes() const { return requantizes ? bytes_of(pixels() * m, 4) : 0; }
};

StatusOr<Plan> read_plan(const KernelRequest& request, const Isa& isa, std::size_t w_operand) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& w = request.inputs[w_operand];
  const TensorDesc& y = request.outputs[0];
  for (const TensorDesc* desc : {&x, &w, &y}) {
    if (desc->layout != Layout::kRowMajor) return unimplemented("channels-last operands");
    if (desc->elems() == 0) return unimplemented("empty operands");
  }
  Plan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  plan.images = x.dims[0];
  plan.groups = request.attributes.get_int("group", 1);
  plan.c = w.dims[1];
  plan.m = w.dims[0] / plan.groups;
  KernelRequest windows = request;  // kernel_shape may be left to the weights
  windows.attributes.set("kernel_shape", Dims(w.dims.begin() + 2, w.dims.end()));
  plan.window = PoolShape::of(windows, x, y);
  return plan;
}

// to[i] = tap (kd, kh, kw) of the window of output pixel `first` + i: runs of pixels of one output
// row, 0 where they lie outside the image.
template <typename T>
void gather_tap(const Plan& plan, const T* image, Int kd, Int kh, Int kw, Int first, Int count,
                T* to) {
  const auto& [depth, height, width] = plan.window.axis;
  const Range inside = width.windows(kw);
  for (Int p = first; p < first + count;) {
    const Int ow = p % width.out;
    const Int n = std::min(width.out - ow, first + count - p);
    const Int z = depth.position(p / width.out / height.out, kd);
    const Int row = height.position(p / width.out % height.out, kh);
    T* const line = to + (p - first);
    p += n;
    if (z < 0 || z >= depth.in || row < 0 || row >= height.in) {
      std::fill_n(line, n, T{});
      continue;
    }
    const Int begin = std::clamp(inside.first - ow, Int{0}, n);
    const Int end = std::clamp(inside.last - ow, begin, n);
    std::fill_n(line, begin, T{});
    std::fill_n(line + end, n - end, T{});
    const T* from = image + plan.window.row_start(z, row);
    const Int start = width.position(ow, kw);
    if (width.stride == 1) {
      std::copy_n(from + start + begin, end - begin, line + begin);
    } else {
      for (Int i = begin; i < end; ++i) line[i] = from[start + i * width.stride];
    }
  }
}

// to[depth][count]: the windows of pixels `first` and on; x: the image's channels of a group.
template <typename T>
void gather_windows(const Plan& plan, const T* x, Int first, Int count, T* to) {
  const auto& [depth, height, width] = plan.window.axis;
  for (Int c = 0; c < plan.c; ++c) {
    const T* image = x + c * plan.in_pixels();
    for (Int kd = 0; kd < depth.kernel; ++kd) {
      for (Int kh = 0; kh < height.kernel; ++kh) {
        for (Int kw = 0; kw < width.kernel; ++kw, to += count) {
          gather_tap(plan, image, kd, kh, kw, first, count, to);
        }
      }
    }
  }
}

// Calls finish(sums, stride of a channel, group, image, first pixel, count) for every unit, whose
// sums [m][count] lie at place(image, group, first pixel) or in the thread's room.
template <typename T, typename Finish>
void run_units(const Plan& plan, const KernelArguments& arguments, const T* x, const T* w, void* y,
               Finish&& finish) {
  const Int units = plan.images * plan.groups * plan.blocks();
  auto* rooms = static_cast<char*>(arguments.workspace) + plan.shared_bytes();
  parallel_units(units, plan.threads, [&](Int unit, int thread) {
    const Int first = unit % plan.blocks() * plan.pixels();
    const Int group = unit / plan.blocks() % plan.groups;
    const Int image = unit / plan.blocks() / plan.groups;
    const Int count = std::min(plan.pixels(), plan.out_pixels() - first);
    char* room = rooms + thread * (plan.window_bytes() + plan.panels_bytes() + plan.sums_bytes());
    auto* windows = reinterpret_cast<T*>(room);
    char* panels = room + plan.window_bytes();
    gather_windows(plan, x + (image * plan.groups + group) * plan.c * plan.in_pixels(), first,
                   count, windows);
    const Int plane = (image * plan.groups + group) * plan.m;
    const Int place = plane * plan.out_pixels() + first;
    void* sums = plan.requantizes ? panels + plan.panels_bytes()
                                  : static_cast<char*>(y) + place * sum_bytes(plan.kind);
    const Int stride = plan.requantizes ? count : plan.out_pixels();
    plan.isa->pack_panels(plan.kind, windows, count, 1, count, plan.depth(), panels);
    plan.isa->multiply(plan.kind, w + group * plan.m * plan.depth(), plan.depth(), panels, sums,
                       stride, plan.m, count, plan.depth());
    finish(sums, stride, group, place, count);
  });
}

void run_double(const Plan& plan, const KernelArguments& arguments) {
  const auto* bias = static_cast<const double*>(in_buffer(arguments, 2));
  run_units(plan, arguments, static_cast<const double*>(arguments.inputs[0]),
            static_cast<const double*>(arguments.inputs[1]), arguments.outputs[0],
            [&](void* sums, Int stride, Int group, Int, Int count) {
              for (Int m = 0; bias != nullptr && m < plan.m; ++m) {
                double* line = static_cast<double*>(sums) + m * stride;
                for (Int i = 0; i < count; ++i) line[i] += bias[group * plan.m + m];
              }
            });
}

void run_quantized(const Plan& plan, const KernelArguments& arguments) {
  auto* x = static_cast<std::int16_t*>(arguments.workspace);
  auto* w = reinterpret_cast<std::int16_t*>(static_cast<char*>(arguments.workspace) +
                                            plan.bytes_of(plan.x_elems(), 2));
  const auto* x_bytes = static_cast<const std::uint8_t*>(arguments.inputs[plan.x.operand]);
  const auto* w_bytes = static_cast<const std::uint8_t*>(arguments.inputs[plan.w.operand]);
  const Int plane = plan.in_pixels();
  parallel_units(plan.images * plan.groups * plan.c, threads_for(plan.x_elems(), plan.threads),
                 [&](Int unit, int) {
                   plan.isa->widen_bytes(plan.x.is_signed, x_bytes + unit * plane,
                                         plan.x.zero(arguments, 0, 0), x + unit * plane, plane);
                 });
  for (Int m = 0; m < plan.groups * plan.m; ++m) {
    plan.isa->widen_bytes(plan.w.is_signed, w_bytes + m * plan.depth(),
                          plan.w.zero(arguments, 0, m), w + m * plan.depth(), plan.depth());
  }
  if (!plan.requantizes) {
    run_units(plan, arguments, x, w, arguments.outputs[0], [](void*, Int, Int, Int, Int) {});
    return;
  }
  const auto* bias = static_cast<const std::int32_t*>(in_buffer(arguments, 8));
  const Requantization::Ends ends = plan.to.ends(arguments);
  const double x_scale = plan.x.scale(arguments, 0, 0);
  run_units(
      plan, arguments, x, w, nullptr, [&](void* sums, Int stride, Int group, Int place, Int count) {
        for (Int m = 0; m < plan.m; ++m) {
          const Int channel = group * plan.m + m;
          const double factor = x_scale * plan.w.scale(arguments, 0, channel) / ends.scale;
          const auto* line = static_cast<const std::int32_t*>(sums) + m * stride;
          auto* y =
              static_cast<std::uint8_t*>(arguments.outputs[0]) + place + m * plan.out_pixels();
          const std::int64_t offset = bias != nullptr ? bias[channel] : 0;
          for (Int i = 0; i < count; ++i) {
            y[i] = ends.quantize(static_cast<double>(line[i] + offset) * factor);
          }
        }
      });
}

Prepared finish(const Isa& isa, Plan plan, void (*run)(const Plan&, const KernelArguments&)) {
  const Int units = plan.images * plan.groups * plan.blocks();
  plan.threads = static_cast<int>(std::min<Int>(plan.threads, units));
  const Int bytes = plan.shared_bytes() +
                    plan.threads * (plan.window_bytes() + plan.panels_bytes() + plan.sums_bytes());
  return make_kernel(
      isa, static_cast<std::size_t>(bytes),
      [plan = std::move(plan), run](const KernelArguments& arguments) { run(plan, arguments); });
}

}  // namespace

Prepared prepare_conv(const KernelRequest& request, const Isa& isa) {
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *side) {
      if (desc.present() && desc.dtype != DType::kFloat64) {
        return unimplemented("operands other than double");
      }
    }
  }
  MEZZO_ASSIGN_OR_RETURN(Plan plan, read_plan(request, isa, 1));
  return finish(isa, std::move(plan), run_double);
}

Prepared prepare_conv_integer(const KernelRequest& request, const Isa& isa) {
  MEZZO_ASSIGN_OR_RETURN(Plan plan, read_plan(request, isa, 1));
  plan.kind = ProductKind::kPairs;
  plan.x = QuantizedSide::of(request, 0, 2, kNoOperand, 1);
  plan.w = QuantizedSide::of(request, 1, 3, kNoOperand, plan.groups * plan.m);
  MEZZO_RETURN_IF_ERROR(plan.x.check(request));
  MEZZO_RETURN_IF_ERROR(plan.w.check(request));
  return finish(isa, std::move(plan), run_quantized);
}

Prepared prepare_qlinear_conv(const KernelRequest& request, const Isa& isa) {
  MEZZO_ASSIGN_OR_RETURN(Plan plan, read_plan(request, isa, 3));
  plan.kind = ProductKind::kPairs;
  plan.x = QuantizedSide::of(request, 0, 2, 1, 1);
  plan.w = QuantizedSide::of(request, 3, 5, 4, plan.groups * plan.m);
  plan.requantizes = true;
  plan.to = Requantization::of(request, 6, 7);
  MEZZO_RETURN_IF_ERROR(plan.x.check(request));
  MEZZO_RETURN_IF_ERROR(plan.w.check(request));
  MEZZO_RETURN_IF_ERROR(Requantization::check(request, 7));
  return finish(isa, std::move(plan), run_quantized);
}

}  // namespace mezzo::kernels::cpu
