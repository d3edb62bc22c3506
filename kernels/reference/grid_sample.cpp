// GridSample: x[N,C,D1..Dk], grid[N,O1..Ok,k] -> y[N,C,O1..Ok], in double, rounded once.
#include "kernels/reference/element_types.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/sampling.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

struct GridPlan {
  GridSampling sampler;
  Elements grid, y;
  Int batches = 0, channels = 0, in_pixels = 1, out_pixels = 1;

  GridPlan(GridSampling grid_sampler, const TensorDesc& grid_desc, const TensorDesc& result)
      : sampler(std::move(grid_sampler)), grid(grid_desc), y(result) {}
};

template <typename T>
void sample(const GridPlan& plan, const T* x, const void* grid, void* y) {
  const auto k = static_cast<std::size_t>(plan.sampler.rank);
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
        plan.y.write<double>(y, (n * plan.channels + c) * plan.out_pixels + p, sum);
      }
    }
  }
}

}  // namespace

PreparedKernel prepare_grid_sample(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:v grid:f -> y:v"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const DType dtype = operands.in(0).dtype;
  if (operands.out(0).dtype != dtype &&
      !(is_floating(dtype) && is_floating(operands.out(0).dtype))) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(dtype)));
  }
  MEZZO_ASSIGN_OR_RETURN(GridSampling sampler, read_grid_sampling(request));
  GridPlan plan(std::move(sampler), operands.in(1), operands.out(0));
  const Dims& x = operands.in(0).dims;
  plan.batches = x[0];
  plan.channels = x[1];
  for (std::size_t d = 2; d < x.size(); ++d) {
    plan.in_pixels *= x[d];
    plan.out_pixels *= operands.out(0).dims[d];
  }
  return make_kernel(
      [plan, empty = operands.out(0).elems() == 0, dtype](const KernelArguments& arguments) {
        if (empty) return;
        with_element_type(dtype, [&](auto element) {
          using T = typename decltype(element)::Type;
          sample(plan, static_cast<const T*>(arguments.inputs[0]), arguments.inputs[1],
                 arguments.outputs[0]);
        });
      });
}

namespace {

// theta (p, 1) for every point p of a regular grid over [-1, 1]^k: through the outermost points at
// the ends, or through the middles of as many equal parts.
struct AffinePlan {
  Elements theta, grid;
  Dims sizes;  // O1..Ok
  Int batches = 0, points = 1;
  bool align_corners = false;

  double coordinate(std::size_t d, Int i) const {
    const auto size = static_cast<double>(sizes[d]), at = static_cast<double>(i);
    if (!align_corners) return (2 * at + 1) / size - 1;
    return sizes[d] == 1 ? -1.0 : 2 * at / (size - 1) - 1;
  }
  // Point p of the grid: the last dim's coordinate first, then 1.
  void point_at(Int p, double* point) const {
    const auto k = static_cast<Int>(sizes.size());
    point[k] = 1.0;
    for (Int d = k - 1; d >= 0; --d) {
      const auto dim = static_cast<std::size_t>(d);
      point[k - 1 - d] = coordinate(dim, p % sizes[dim]);
      p /= sizes[dim];
    }
  }
};

void run_affine_grid(const AffinePlan& plan, const KernelArguments& arguments) {
  const auto k = static_cast<Int>(plan.sizes.size());
  double point[kMostSampledDims + 1];
  for (Int n = 0; n < plan.batches; ++n) {
    for (Int p = 0; p < plan.points; ++p) {
      plan.point_at(p, point);
      for (Int row = 0; row < k; ++row) {
        double sum = 0.0;
        for (Int i = 0; i <= k; ++i) {
          sum +=
              plan.theta.read<double>(arguments.inputs[0], (n * k + row) * (k + 1) + i) * point[i];
        }
        plan.grid.write<double>(arguments.outputs[0], (n * plan.points + p) * k + row, sum);
      }
    }
  }
}

// dtheta: the sum over the points of dgrid (p, 1).
void run_affine_grid_grad(const AffinePlan& plan, const KernelArguments& arguments) {
  const auto k = static_cast<Int>(plan.sizes.size());
  double point[kMostSampledDims + 1];
  for (Int n = 0; n < plan.batches; ++n) {
    double sums[kMostSampledDims * (kMostSampledDims + 1)] = {};
    for (Int p = 0; p < plan.points; ++p) {
      plan.point_at(p, point);
      for (Int row = 0; row < k; ++row) {
        const double dy =
            plan.grid.read<double>(arguments.inputs[0], (n * plan.points + p) * k + row);
        for (Int i = 0; i <= k; ++i) sums[row * (k + 1) + i] += dy * point[i];
      }
    }
    for (Int i = 0; i < k * (k + 1); ++i) {
      plan.theta.write<double>(arguments.outputs[0], n * k * (k + 1) + i, sums[i]);
    }
  }
}

PreparedKernel affine_kernel(const Operands& operands, bool gradient) {
  const TensorDesc& theta_desc = gradient ? operands.out(0) : operands.in(0);
  const TensorDesc& grid_desc = gradient ? operands.in(0) : operands.out(0);
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const Dims& theta = theta_desc.dims;
  const Dims& grid = grid_desc.dims;
  if (theta.size() != 3 || theta[1] < 2 || theta[1] > 3 || theta[2] != theta[1] + 1) {
    return operands.error("theta: expected dims [N,2,3] or [N,3,4]");
  }
  if (static_cast<Int>(grid.size()) != theta[1] + 2 || grid[0] != theta[0] ||
      grid.back() != theta[1]) {
    return operands.error("the grid does not go with theta");
  }
  AffinePlan plan{Elements(theta_desc), Elements(grid_desc), Dims(grid.begin() + 1, grid.end() - 1),
                  grid[0]};
  for (const Int size : plan.sizes) plan.points *= size;
  MEZZO_ASSIGN_OR_RETURN(plan.align_corners, operands.flag("align_corners", false));
  return make_kernel([plan, gradient](const KernelArguments& arguments) {
    if (gradient) {
      run_affine_grid_grad(plan, arguments);
    } else {
      run_affine_grid(plan, arguments);
    }
  });
}

}  // namespace

PreparedKernel prepare_affine_grid(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "theta:f -> grid:f"));
  return affine_kernel(operands, false);
}

PreparedKernel prepare_affine_grid_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dgrid:f -> dtheta:f"));
  return affine_kernel(operands, true);
}

}  // namespace mezzo::kernels::reference
