// GridSampleGrad: dy[N,C,O1..Ok], x[N,C,D1..Dk], grid[N,O1..Ok,k] -> dx?, dgrid?, k up to 3,
// row-major, any floating dtypes. Letters: P points of an image.
//
// Places and weights in double (formulas/grid_sampling.h), sums in float32 (float64 where an
// operand is). dx is added up channel by channel in the order of the points, so that its bits do
// not depend on which thread is first.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"
#include "kernels/sampling.h"

namespace mezzo::kernels::cuda {

struct GridGrad {
  GridSampling sampling;
  Int images = 0, channels = 0;
  Divisor points, pixels;  // P; elements of a channel of x
};

// Point number `at` of all images.
__device__ inline void load_point(const GridGrad& shape, const FloatsIn& grid, Int at,
                                  double (&point)[kMostSampledDims]) {
  for (int d = 0; d < shape.sampling.rank; ++d) {
    point[d] = load_float<double>(grid, at * shape.sampling.rank + d);
  }
}

// dgrid: a thread per point.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    grid_sample_slopes(GridGrad shape, FloatsIn dy, FloatsIn x, FloatsIn grid, FloatsOut dgrid) {
  const Int points = shape.images * shape.points.value();
  const Int threads = Int{gridDim.x} * blockDim.x;
  const int rank = shape.sampling.rank;
  SampleTaps taps;
  for (Int at = Int{blockIdx.x} * blockDim.x + threadIdx.x; at < points; at += threads) {
    Int number = 0;
    const Int first = shape.points.divide(at, number) * shape.channels;
    double point[kMostSampledDims];
    load_point(shape, grid, at, point);
    for (int d = 0; d < rank; ++d) {
      shape.sampling.slopes_at(point, rank - 1 - d, taps);
      T sum = T(0);
      for (Int plane = first; plane < first + shape.channels; ++plane) {
        T along = T(0);
        for (int t = 0; t < taps.count; ++t) {
          along += static_cast<T>(taps.weights[t]) *
                   load_float<T>(x, plane * shape.pixels.value() + taps.offsets[t]);
        }
        sum += along * load_float<T>(dy, plane * shape.points.value() + number);
      }
      store_float(dgrid, at * rank + d, sum);
    }
  }
}

inline constexpr int kPointsAtOnce = 8;

// dx: a warp per image and kWarpThreads channels. sums[N, in pixels, C], zero before.
template <typename T>
__global__ void __launch_bounds__(kWarpThreads)
    grid_sample_scatter(GridGrad shape, FloatsIn dy, FloatsIn grid, T* sums, Int groups) {
  __shared__ SampleTaps taps[kPointsAtOnce];
  const Int points = shape.points.value();
  const int lane = static_cast<int>(threadIdx.x);
  for (Int unit = blockIdx.x; unit < shape.images * groups; unit += gridDim.x) {
    const Int image = unit / groups;
    const Int channel = unit % groups * kWarpThreads + lane;
    T* const to = sums + image * shape.pixels.value() * shape.channels + channel;
    for (Int first = 0; first < points; first += kPointsAtOnce) {
      __syncthreads();
      if (lane < kPointsAtOnce && first + lane < points) {
        double point[kMostSampledDims];
        load_point(shape, grid, image * points + first + lane, point);
        shape.sampling.taps_at(point, taps[lane]);
      }
      __syncthreads();
      for (Int i = 0; i < kPointsAtOnce && first + i < points && channel < shape.channels; ++i) {
        const T g = load_float<T>(dy, (image * shape.channels + channel) * points + first + i);
        for (int t = 0; t < taps[i].count; ++t) {
          to[taps[i].offsets[t] * shape.channels] += static_cast<T>(taps[i].weights[t]) * g;
        }
      }
    }
  }
}

// dx[N, C, in pixels] from sums[N, in pixels, C].
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    store_sampled_sums(const T* sums, FloatsOut dx, Divisor channels, Divisor pixels, Int elems) {
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int i = Int{blockIdx.x} * blockDim.x + threadIdx.x; i < elems; i += threads) {
    Int pixel = 0, channel = 0;
    const Int image = channels.divide(pixels.divide(i, pixel), channel);
    store_float(dx, i, sums[(image * pixels.value() + pixel) * channels.value() + channel]);
  }
}

namespace {

struct GridGradPlan {
  GridGrad shape;
  DType dy = DType::kFloat32, x = dy, grid = dy, dx = dy, dgrid = dy;
  Int dx_elems = 0, points = 0;  // points of all images

  template <typename T>
  Status run(const KernelArguments& arguments) const {
    const FloatsIn dy_in{arguments.inputs[0], dy}, x_in{arguments.inputs[1], x};
    const FloatsIn grid_in{arguments.inputs[2], grid};
    const FloatsOut dx_out{result_data(arguments, 0), dx};
    const FloatsOut dgrid_out{result_data(arguments, 1), dgrid};
    if (dgrid_out.data != nullptr && points > 0) {
      MEZZO_RETURN_IF_ERROR((launch<grid_sample_slopes<T>>(
          shape_for(points), arguments.stream, shape, dy_in, x_in, grid_in, dgrid_out)));
    }
    if (dx_out.data == nullptr || dx_elems == 0) return ok_status();
    auto* sums = static_cast<T*>(arguments.workspace);
    MEZZO_RETURN_IF_ERROR(check(
        "cudaMemsetAsync", cudaMemsetAsync(sums, 0, static_cast<std::size_t>(dx_elems) * sizeof(T),
                                           static_cast<cudaStream_t>(arguments.stream))));
    const Int groups = ceil_div(shape.channels, kWarpThreads);
    const LaunchShape warps{
        dim3(static_cast<unsigned>(std::min<Int>(shape.images * groups, 1 << 20))),
        dim3(kWarpThreads), 0};
    if (points > 0) {
      MEZZO_RETURN_IF_ERROR((launch<grid_sample_scatter<T>>(warps, arguments.stream, shape, dy_in,
                                                            grid_in, sums, groups)));
    }
    return launch<store_sampled_sums<T>>(shape_for(dx_elems), arguments.stream, sums, dx_out,
                                         Divisor(shape.channels), shape.pixels, dx_elems);
  }
};

PreparedKernel prepare_grid_sample_grad(const KernelRequest& request) {
  for (const auto* descs : {&request.inputs, &request.outputs}) {
    if (std::any_of(descs->begin(), descs->end(), is_channels_last)) {
      return unimplemented("channels-last operands");
    }
  }
  const TensorDesc& x = operand(request, 1);
  KernelRequest forward;
  forward.op = "GridSample";
  forward.attributes = request.attributes;
  forward.inputs = {x, operand(request, 2)};
  forward.outputs = {operand(request, 0)};
  GridGradPlan plan;
  MEZZO_ASSIGN_OR_RETURN(plan.shape.sampling, read_grid_sampling(forward));
  plan.shape.images = x.dims[0];
  plan.shape.channels = x.dims[1];
  plan.shape.pixels = Divisor(dims_product(x.dims, 2, x.dims.size()));
  const Dims& y = operand(request, 0).dims;
  plan.shape.points = Divisor(dims_product(y, 2, y.size()));
  plan.dy = operand(request, 0).dtype;
  plan.x = x.dtype;
  plan.grid = operand(request, 2).dtype;
  plan.dx = result(request, 0).dtype;
  plan.dgrid = result(request, 1).dtype;
  plan.dx_elems = x.elems();
  plan.points = x.dims[0] * dims_product(y, 2, y.size());
  WorkspacePlan workspace;
  if (result(request, 0).present()) workspace.add(plan.dx_elems);
  return make_layer(
      "cuda:grid-sample-grad",
      [plan, is_double = has_double(request)](const KernelArguments& arguments) {
        return with_real(is_double, [&](auto real) { return plan.run<decltype(real)>(arguments); });
      },
      workspace.bytes());
}

constexpr KernelEntry kRows[] = {{"GridSampleGrad", "cuda", prepare_grid_sample_grad}};

}  // namespace

std::span<const KernelEntry> grid_sample_grad_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
