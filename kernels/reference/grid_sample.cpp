// GridSample: x[N,C,D1..Dk], grid[N,O1..Ok,k] -> y[N,C,O1..Ok], in double, rounded once.
#include "kernels/reference/element_types.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/sampling.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

struct GridPlan {
  GridSampler sampler;
  Elements grid;
  Int batches = 0, channels = 0, in_pixels = 1, out_pixels = 1;

  GridPlan(GridSampler grid_sampler, const TensorDesc& desc)
      : sampler(std::move(grid_sampler)), grid(desc) {}
};

template <typename T>
void sample(const GridPlan& plan, const T* x, const void* grid, T* y) {
  const std::size_t k = plan.sampler.dims();
  SampleTaps taps;
  double point[kMostSampledDims];
  for (Int n = 0; n < plan.batches; ++n) {
    for (Int p = 0; p < plan.out_pixels; ++p) {
      for (std::size_t d = 0; d < k; ++d) {
        point[d] = plan.grid.read<double>(
            grid, (n * plan.out_pixels + p) * static_cast<Int>(k) + static_cast<Int>(d));
      }
      plan.sampler.taps_at(point, taps);
      for (Int c = 0; c < plan.channels; ++c) {
        const T* from = x + (n * plan.channels + c) * plan.in_pixels;
        double sum = 0.0;
        for (std::size_t t = 0; t < static_cast<std::size_t>(taps.count); ++t) {
          sum += taps.weights[t] * decode(from[taps.offsets[t]]);
        }
        y[(n * plan.channels + c) * plan.out_pixels + p] = encode<T>(sum);
      }
    }
  }
}

}  // namespace

PreparedKernel prepare_grid_sample(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:v grid:f -> y:v"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  if (operands.out(0).dtype != operands.in(0).dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(operands.in(0).dtype)));
  }
  MEZZO_ASSIGN_OR_RETURN(GridSampler sampler, GridSampler::read(request));
  GridPlan plan(std::move(sampler), operands.in(1));
  const Dims& x = operands.in(0).dims;
  plan.batches = x[0];
  plan.channels = x[1];
  for (std::size_t d = 2; d < x.size(); ++d) {
    plan.in_pixels *= x[d];
    plan.out_pixels *= operands.out(0).dims[d];
  }
  return make_kernel([plan, empty = operands.out(0).elems() == 0,
                      dtype = operands.in(0).dtype](const KernelArguments& arguments) {
    if (empty) return;
    with_element_type(dtype, [&](auto element) {
      using T = typename decltype(element)::Type;
      sample(plan, static_cast<const T*>(arguments.inputs[0]), arguments.inputs[1],
             static_cast<T*>(arguments.outputs[0]));
    });
  });
}

}  // namespace mezzo::kernels::reference
