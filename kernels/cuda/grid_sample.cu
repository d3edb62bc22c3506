// GridSample: x[N,C,D1..Dk], grid[N,O1..Ok,k] -> y[N,C,O1..Ok]; AffineGrid: theta[N,k,k+1] ->
// grid[N,O1..Ok,k], and its gradient. In double, rounded once.
#include "kernels/cuda/element.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"
#include "kernels/sampling.h"

namespace mezzo::kernels::cuda {

struct GridSamplePlan {
  GridSampling sampling;
  Int batches = 0, channels = 0, in_pixels = 1;
  Divisor out_pixels;
  DType x = DType::kNone, grid = DType::kNone, y = DType::kNone;
};

// A thread for every point: where it looks is the same for all channels.
__global__ void grid_sample(GridSamplePlan plan, const void* x, const void* grid, void* y) {
  const int k = plan.sampling.rank;
  const Int points = plan.batches * plan.out_pixels.value();
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < points; number += step) {
    double point[kMostSampledDims];
    for (int d = 0; d < k; ++d) point[d] = load_element<double>(grid, number * k + d, plan.grid);
    SampleTaps taps;
    plan.sampling.taps_at(point, taps);
    Int pixel = 0;
    const Int plane = plan.out_pixels.divide(number, pixel) * plan.channels;
    for (Int c = plane; c < plane + plan.channels; ++c) {
      double sum = 0.0;
      for (int t = 0; t < taps.count; ++t) {
        sum +=
            taps.weights[t] * load_element<double>(x, c * plan.in_pixels + taps.offsets[t], plan.x);
      }
      store_element<double>(y, c * plan.out_pixels.value() + pixel, plan.y, sum);
    }
  }
}

struct AffineGridPlan {
  Int points = 0;  // of all batches
  int rank = 2;
  Divisor sizes[kMostSampledDims];  // O1..Ok
  Divisor points_each;
  std::int32_t align_corners = 0;
  DType theta = DType::kNone, grid = DType::kNone;
};

// Through the outermost points at -1 and 1, or through the middles of as many equal parts.
__device__ inline double grid_coordinate(const AffineGridPlan& plan, Int size, Int i) {
  const auto of = static_cast<double>(size);
  const auto at = static_cast<double>(i);
  if (plan.align_corners == 0) return (2 * at + 1) / of - 1;
  return size == 1 ? -1.0 : 2 * at / (of - 1) - 1;
}

// The last dim's coordinate first, then 1; gives the batch.
__device__ inline Int grid_point(const AffineGridPlan& plan, Int number,
                                 double (&point)[kMostSampledDims + 1]) {
  Int left = 0;
  const Int n = plan.points_each.divide(number, left);
  point[plan.rank] = 1.0;
  for (int d = plan.rank - 1; d >= 0; --d) {
    Int place = 0;
    left = plan.sizes[d].divide(left, place);
    point[plan.rank - 1 - d] = grid_coordinate(plan, plan.sizes[d].value(), place);
  }
  return n;
}

__global__ void affine_grid(AffineGridPlan plan, const void* theta, void* grid) {
  const int k = plan.rank;
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < plan.points;
       number += step) {
    double point[kMostSampledDims + 1];
    const Int n = grid_point(plan, number, point);
    for (int row = 0; row < k; ++row) {
      double sum = 0.0;
      for (int i = 0; i <= k; ++i) {
        sum += load_element<double>(theta, (n * k + row) * (k + 1) + i, plan.theta) * point[i];
      }
      store_element<double>(grid, number * k + row, plan.grid, sum);
    }
  }
}

// dtheta: the sum over the points of dgrid (p, 1). A block for every number of dtheta.
__global__ void affine_grid_grad(AffineGridPlan plan, const void* dgrid, void* dtheta, Int elems) {
  const int k = plan.rank;
  for (Int number = blockIdx.x; number < elems; number += gridDim.x) {
    const int place = static_cast<int>(number % (k * (k + 1)));
    const Int n = number / (k * (k + 1));
    const int row = place / (k + 1);
    double sum = 0.0;
    for (Int p = threadIdx.x; p < plan.points_each.value(); p += blockDim.x) {
      const Int at = n * plan.points_each.value() + p;
      double point[kMostSampledDims + 1];
      grid_point(plan, at, point);
      sum += load_element<double>(dgrid, at * k + row, plan.grid) * point[place % (k + 1)];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) store_element<double>(dtheta, number, plan.theta, sum);
  }
}

namespace {

constexpr std::string_view kName = "cuda:grid";

Prepared grid_sample_row(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  if (!is_row_major(request)) return unimplemented("a channels-last operand or result");
  GridSamplePlan plan;
  MEZZO_ASSIGN_OR_RETURN(plan.sampling, read_grid_sampling(request));
  plan.batches = x.dims[0];
  plan.channels = x.dims[1];
  Int out_pixels = 1;
  for (std::size_t d = 2; d < x.dims.size(); ++d) {
    plan.in_pixels *= x.dims[d];
    out_pixels *= y.dims[d];
  }
  plan.out_pixels = Divisor(out_pixels);
  plan.x = x.dtype;
  plan.grid = request.inputs[1].dtype;
  plan.y = y.dtype;
  if (!has_elements(plan.x) || !has_elements(plan.y)) return unimplemented("dtype");
  return make_kernel(kName, 0, [plan, empty = y.elems() == 0](const KernelArguments& arguments) {
    if (empty) return ok_status();
    return launch<grid_sample>(shape_for(plan.batches * plan.out_pixels.value()), arguments.stream,
                               plan, arguments.inputs[0], arguments.inputs[1],
                               arguments.outputs[0]);
  });
}

AffineGridPlan affine_plan(const KernelRequest& request, const TensorDesc& theta,
                           const TensorDesc& grid) {
  AffineGridPlan plan;
  plan.rank = static_cast<int>(grid.dims.size() - 2);
  Int each = 1;
  for (int d = 0; d < plan.rank; ++d) {
    const Int size = grid.dims[static_cast<std::size_t>(d) + 1];
    plan.sizes[d] = Divisor(size);
    each *= size;
  }
  plan.points_each = Divisor(each);
  plan.points = each * grid.dims[0];
  plan.align_corners = request.attributes.get_int("align_corners", 0) != 0 ? 1 : 0;
  plan.theta = theta.dtype;
  plan.grid = grid.dtype;
  return plan;
}

Prepared affine_grid_row(const KernelRequest& request) {
  const auto plan = affine_plan(request, request.inputs[0], request.outputs[0]);
  return make_kernel(kName, 0, [plan](const KernelArguments& arguments) {
    if (plan.points == 0) return ok_status();
    return launch<affine_grid>(shape_for(plan.points), arguments.stream, plan, arguments.inputs[0],
                               arguments.outputs[0]);
  });
}

Prepared affine_grid_grad_row(const KernelRequest& request) {
  const auto plan = affine_plan(request, request.outputs[0], request.inputs[0]);
  if (plan.points == 0) return unimplemented("no points");
  return make_kernel(
      kName, 0, [plan, elems = request.outputs[0].elems()](const KernelArguments& arguments) {
        if (elems == 0) return ok_status();
        LaunchShape shape;
        shape.grid = dim3(static_cast<unsigned>(limit_blocks(elems, 1 << 16)));
        shape.block = dim3(kBlockThreads);
        return launch<affine_grid_grad>(shape, arguments.stream, plan, arguments.inputs[0],
                                        arguments.outputs[0], elems);
      });
}

constexpr KernelEntry kRows[] = {{"GridSample", kName, grid_sample_row},
                                 {"AffineGrid", kName, affine_grid_row},
                                 {"AffineGridGrad", kName, affine_grid_grad_row}};

}  // namespace

std::span<const KernelEntry> grid_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
