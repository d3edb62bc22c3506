// Resize of float32, float16 and bfloat16, and its gradient by the transposed tables; to the
// nearest element, of any dtype.
//
// What lies before the first resized dim are planes: units of work of their own. A plane goes
// through one step per resized dim, in float32, between two buffers of the workspace: along the
// innermost dim elements are found by index, along the others whole rows are blended. Dims that
// shrink come first, those that grow last, so that the steps between stay small.
#include <algorithm>
#include <numeric>

#include "kernels/cpu/common.h"
#include "kernels/mapped_copy.h"
#include "kernels/resample.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kMostTaps = 128;  // rows blended at once; beyond, the reference is asked

// x[outer][in][inner] -> y[outer][out][inner], tables tap by tap.
struct Step {
  Int outer = 1, in = 0, out = 0, inner = 1, taps = 1;
  std::vector<std::int32_t> indices;  // [taps][out]
  std::vector<float> weights;         // [taps][out]
  bool ascends = true;                // the indices of every tap; not where a region is mirrored
};

struct Plan {
  const Isa* isa = nullptr;
  std::vector<Step> steps;
  Int planes = 1, plane_in = 1, plane_out = 1;
  Int buffer = 0;  // floats of the largest step, padded
  DType x = DType::kNone, y = DType::kNone;
  int threads = 1;
};

void run_step(const Isa& isa, const Step& step, const float* x, float* y) {
  if (step.inner == 1) {
    const std::int32_t* indices = step.indices.data();
    const float* weights = step.weights.data();
    for (Int o = 0; o < step.outer; ++o, x += step.in, y += step.out) {
      if (step.ascends) {
        isa.blend_sorted_taps(x, step.in, indices, weights, step.taps, y, step.out);
      } else {
        isa.blend_taps(x, indices, weights, step.taps, y, step.out);
      }
    }
    return;
  }
  const float* rows[kMostTaps];
  float weights[kMostTaps];
  for (Int o = 0; o < step.outer; ++o) {
    for (Int j = 0; j < step.out; ++j, y += step.inner) {
      Int taps = 0;
      for (Int t = 0; t < step.taps; ++t) {
        const auto tap = static_cast<std::size_t>(t * step.out + j);
        if (step.weights[tap] == 0.0F && (taps > 0 || t + 1 < step.taps)) continue;
        rows[taps] = x + (o * step.in + step.indices[tap]) * step.inner;
        weights[taps++] = step.weights[tap];
      }
      isa.blend_rows(rows, weights, taps, y, step.inner);
    }
  }
}

void run_plane(const Plan& plan, const KernelArguments& arguments, Int plane, float* room) {
  const Isa& isa = *plan.isa;
  float* spare[2] = {room, room + plan.buffer};
  const float* now =
      floats(isa, plan.x, arguments.inputs[0], plane * plan.plane_in, plan.plane_in, spare[0]);
  int next = now == spare[0] ? 1 : 0;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const bool last = s + 1 == plan.steps.size();
    float* to =
        last ? float_target(plan.y, arguments.outputs[0], plane * plan.plane_out, spare[next])
             : spare[next];
    run_step(isa, plan.steps[s], now, to);
    now = to;
    next = 1 - next;
  }
  flush(isa, plan.y, now, arguments.outputs[0], plane * plan.plane_out, plan.plane_out);
}

Step make_step(const ResampledAxis& axis) {
  Step step;
  step.in = axis.in;
  step.out = axis.out;
  step.taps = axis.taps;
  step.indices.resize(axis.indices.size());
  step.weights.resize(axis.indices.size());
  for (Int j = 0; j < axis.out; ++j) {
    for (Int t = 0; t < axis.taps; ++t) {
      const auto from = static_cast<std::size_t>(j * axis.taps + t);
      const auto to = static_cast<std::size_t>(t * axis.out + j);
      step.indices[to] = static_cast<std::int32_t>(axis.indices[from]);
      step.weights[to] = static_cast<float>(axis.weights[from]);
      step.ascends = step.ascends && (j == 0 || step.indices[to - 1] <= step.indices[to]);
    }
  }
  return step;
}

// Shrinking dims in order, then the growing ones from the innermost on.
std::vector<std::size_t> order_of_steps(const std::vector<ResampledAxis>& axes) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].out <= axes[i].in) order.push_back(i);
  }
  for (std::size_t i = axes.size(); i > 0; --i) {
    if (axes[i - 1].out > axes[i - 1].in) order.push_back(i - 1);
  }
  return order;
}

Prepared nearest_kernel(const KernelRequest& request, const Isa& isa, const Resampling& resampling,
                        const Dims& x) {
  constexpr Int kUnitBytes = 1 << 16;
  std::vector<Dims> maps(x.size());
  for (std::size_t d = 0; d < x.size(); ++d) {
    maps[d].resize(static_cast<std::size_t>(x[d]));
    std::iota(maps[d].begin(), maps[d].end(), 0);
  }
  for (const ResampledAxis& axis : resampling.axes) maps[axis.dim] = axis.indices;
  const TensorDesc& y = request.outputs[0];
  auto copy =
      MappedCopy::make(x, std::move(maps), static_cast<std::size_t>(dtype_bits(y.dtype) / 8));
  const Int group =
      std::max<Int>(1, kUnitBytes / std::max<Int>(1, static_cast<Int>(copy.row_bytes())));
  const int threads = threads_for(static_cast<Int>(y.bytes()) / 4, request.threads);
  return make_kernel(isa, 0,
                     [copy = std::move(copy), group, threads](const KernelArguments& arguments) {
                       parallel_units(ceil_div(copy.rows(), group), threads, [&](Int unit, int) {
                         copy.run(arguments.inputs[0], arguments.outputs[0], nullptr, unit * group,
                                  std::min(copy.rows(), (unit + 1) * group));
                       });
                     });
}

}  // namespace

Prepared prepare_resize(const KernelRequest& request, const Isa& isa) {
  MEZZO_ASSIGN_OR_RETURN(Resampling resampling, request.op == "ResizeGrad"
                                                    ? read_resampling_grad(request)
                                                    : read_resampling(request));
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  Dims x_dims = x.dims;
  Dims y_dims = y.dims;
  to_memory_order(common_layout(x, y), resampling, x_dims, y_dims);
  if (y.elems() == 0 || resampling.axes.empty()) return unimplemented("nothing to resize");
  if (resampling.extrapolates()) return unimplemented("extrapolation");
  if (resampling.nearest && x.dtype == y.dtype)
    return nearest_kernel(request, isa, resampling, x_dims);
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  Plan plan;
  plan.isa = &isa;
  plan.x = x.dtype;
  plan.y = y.dtype;
  const std::size_t first = resampling.axes.front().dim;
  Dims dims(x_dims.begin() + static_cast<std::ptrdiff_t>(first), x_dims.end());
  for (std::size_t d = 0; d < first; ++d) plan.planes *= x_dims[d];
  plan.plane_in = x.elems() / plan.planes;
  plan.plane_out = y.elems() / plan.planes;
  plan.buffer = std::max(plan.plane_in, plan.plane_out);
  for (const std::size_t i : order_of_steps(resampling.axes)) {
    const ResampledAxis& axis = resampling.axes[i];
    if (axis.taps > kMostTaps) return unimplemented("too many taps");
    Step step = make_step(axis);
    const std::size_t at = axis.dim - first;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (d < at) step.outer *= dims[d];
      if (d > at) step.inner *= dims[d];
    }
    dims[at] = axis.out;
    if (step.outer * step.inner > kMaxElems / axis.out) return unimplemented("too large a step");
    plan.buffer = std::max(plan.buffer, step.outer * step.inner * axis.out);
    plan.steps.push_back(std::move(step));
  }
  plan.buffer = padded_floats(plan.buffer);
  plan.threads = static_cast<int>(
      std::min<Int>(threads_for(x.elems() + y.elems(), request.threads), plan.planes));
  const Int room = 2 * plan.buffer;
  return make_kernel(isa, static_cast<std::size_t>(room * plan.threads) * sizeof(float),
                     [plan, room](const KernelArguments& arguments) {
                       parallel_units(plan.planes, plan.threads, [&](Int plane, int thread) {
                         run_plane(plan, arguments, plane,
                                   thread_part(arguments.workspace, thread, room));
                       });
                     });
}

}  // namespace mezzo::kernels::cpu
