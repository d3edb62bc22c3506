// Resize, and its gradient by the transposed tables. To the nearest element: elements are moved.
// Otherwise axis by axis in double, rounded once at the end; integers are rounded to the nearest,
// ties to even, and saturate.
//
// Workspace: two tensors of doubles, as large as the largest step between two axes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/support/text.h"
#include "kernels/mapped_copy.h"
#include "kernels/reference/element_types.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/reference/strided_copy.h"
#include "kernels/resample.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

constexpr Int kMostMapped = Int{1} << 28;  // the longest dim that is mapped index by index

PreparedKernel nearest_kernel(const Operands& operands, const Resampling& resampling,
                              const Dims& x) {
  std::vector<std::vector<Int>> maps(x.size());
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (x[d] > kMostMapped) return unimplemented("Resize: a dim beyond 2^28");
    maps[d].resize(static_cast<std::size_t>(x[d]));
    std::iota(maps[d].begin(), maps[d].end(), 0);
  }
  for (const ResampledAxis& axis : resampling.axes) {
    maps[axis.dim] = axis.indices;
    for (std::size_t j = 0; j < axis.outside.size(); ++j) {
      if (axis.outside[j]) maps[axis.dim][j] = MappedCopy::kFill;
    }
  }
  std::array<std::byte, 8> fill{};
  Elements(operands.out(0)).write_at<double>(fill.data(), 0, resampling.extrapolation);
  const auto copy = MappedCopy::make(x, std::move(maps), element_bytes(operands.in(0)));
  return make_kernel(
      [copy, fill, empty = operands.out(0).elems() == 0](const KernelArguments& arguments) {
        if (empty) return;
        copy.run(arguments.inputs[0], arguments.outputs[0], fill.data(), 0, copy.rows());
      });
}

// x[outer, in, inner] -> y[outer, out, inner].
void resample(const ResampledAxis& axis, Int outer, Int inner, double extrapolation,
              const double* x, double* y) {
  for (Int o = 0; o < outer; ++o) {
    for (Int j = 0; j < axis.out; ++j, y += inner) {
      const bool outside = !axis.outside.empty() && axis.outside[static_cast<std::size_t>(j)];
      std::fill(y, y + inner, outside ? extrapolation : 0.0);
      for (Int t = 0; t < axis.taps && !outside; ++t) {
        const auto tap = static_cast<std::size_t>(j * axis.taps + t);
        const double weight = axis.weights[tap];
        if (weight == 0.0) continue;
        const double* row = x + (o * axis.in + axis.indices[tap]) * inner;
        for (Int i = 0; i < inner; ++i) y[i] += weight * row[i];
      }
    }
  }
}

struct Step {
  ResampledAxis axis;
  Int outer = 1, inner = 1;
};

}  // namespace

PreparedKernel prepare_resize(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:v -> y:v"));
  const bool both_matter = operands.in(0).layout_matters() && operands.out(0).layout_matters();
  if (both_matter && operands.in(0).layout != operands.out(0).layout) {
    return unimplemented(operands.op() + ": operand and result in different layouts");
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  MEZZO_ASSIGN_OR_RETURN(Resampling resampling, request.op == "ResizeGrad"
                                                    ? read_resampling_grad(request)
                                                    : read_resampling(request));
  Dims dims = operands.in(0).dims;
  Dims result = operands.out(0).dims;
  to_memory_order(common_layout(operands.in(0), operands.out(0)), resampling, dims, result);
  Dims reached = dims;
  for (const ResampledAxis& axis : resampling.axes) reached[axis.dim] = axis.out;
  if (reached != result) return operands.out_error(0, "other dims than its axes lead to");
  const DType dtype = operands.in(0).dtype;
  if (resampling.nearest && operands.out(0).dtype == dtype) {
    return nearest_kernel(operands, resampling, dims);
  }
  std::vector<Step> steps;
  Int largest = operands.in(0).elems();
  for (const ResampledAxis& axis : resampling.axes) {
    const AxisView view = view_along(dims, axis.dim);
    dims[axis.dim] = axis.out;
    steps.push_back({axis, view.outer, view.inner});
    if (view.outer * view.inner > kMaxElems / std::max<Int>(axis.out, 1)) {
      return operands.error("a step of it is too large");
    }
    largest = std::max(largest, view.outer * axis.out * view.inner);
  }
  return make_kernel(
      [steps, largest, extrapolation = resampling.extrapolation, elems = operands.out(0).elems(),
       from_elems = operands.in(0).elems(), dtype,
       to_dtype = operands.out(0).dtype](const KernelArguments& arguments) {
        if (elems == 0) return;
        auto* now = static_cast<double*>(arguments.workspace);
        double* next = now + largest;
        with_element_type(dtype, [&](auto element) {
          const auto* x = static_cast<const typename decltype(element)::Type*>(arguments.inputs[0]);
          for (Int i = 0; i < from_elems; ++i) now[i] = decode(x[i]);
        });
        for (const Step& step : steps) {
          resample(step.axis, step.outer, step.inner, extrapolation, now, next);
          std::swap(now, next);
        }
        with_element_type(to_dtype, [&](auto element) {
          using T = typename decltype(element)::Type;
          T* y = static_cast<T*>(arguments.outputs[0]);
          for (Int i = 0; i < elems; ++i) {
            y[i] = encode<T>(std::is_integral_v<T> ? std::nearbyint(now[i]) : now[i]);
          }
        });
      },
      2 * doubles_bytes(largest));
}

}  // namespace mezzo::kernels::reference
