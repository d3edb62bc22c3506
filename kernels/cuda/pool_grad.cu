// The gradients of pools, and MaxUnpool. Letters: dy[N,C,..] of the windows, x and dx[N,C,..] of
// the elements, 1 to 3 spatial axes, row-major or channels-last.
//
//   AveragePoolGrad  dx = sum of dy / elements of the window   over the windows that hold the
//   element LpPoolGrad       dx = sum of dy sign(x) (|x| / y)^(p - 1)  over the same; 0 at zeros
//   MaxPoolGrad      dx = sum of dy                            over those whose index is the
//   element's
//
// A thread gathers for one element (channels-last: for kGradPack channels of a pixel), windows in
// rising order: nothing is added by two threads. Sums in float32 (float64 where an operand is).
// MaxPoolGrad without the attributes of its windows: a thread per plane adds up all of it.
#include <cmath>

#include "kernels/cuda/fault.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/windows.h"

namespace mezzo::kernels::cuda {

inline constexpr int kGradPack = 8;

enum class PoolGradKind : std::uint8_t { kMax, kAverage, kAverageWithPadding, kNorm };

struct PoolGrad {
  PoolGradKind kind = PoolGradKind::kAverage;
  Windows windows;
  Places x, y;    // of elements and of windows
  Int elems = 0;  // of dx
  Int units = 0;  // these, or packs of them
  double p = 2.0;
  FloatsIn dy, x_in, y_in;       // x_in, y_in: kNorm
  const Int* indices = nullptr;  // kMax
  FloatsOut dx;
  DeviceFault* fault = nullptr;
  std::int32_t step = 0;
};

// dy/dx of one element of a window.
template <typename T>
__device__ __forceinline__ T norm_slope(T x, T y, T p) {
  if (x == T(0) || y == T(0)) return T(0);
  const T ratio = x / y;
  if (p == T(2)) return ratio;
  return std::copysign(p == T(1) ? T(1) : std::pow(std::fabs(ratio), p - T(1)), x);
}

// Adds what the window at `at` (the first channel's element) gives to the elements of a pixel.
template <typename T, int kPack>
__device__ __forceinline__ void add_window(const PoolGrad& pool, Int at, T share, Int index,
                                           const T (&x)[kPack], T (&sums)[kPack]) {
  T dy[kPack];
  load_packed(pool.dy, at, dy);
  if (pool.kind == PoolGradKind::kMax) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const Int found = pool.indices[at + k];
      if (found == index + k * pool.x.pixels()) {
        sums[k] += dy[k];
      } else if (found < -1 || found >= pool.elems) {
        report_fault(pool.fault, pool.step, 1, at + k, found);
      }
    }
    return;
  }
  if (pool.kind == PoolGradKind::kNorm) {
    T y[kPack];
    load_packed(pool.y_in, at, y);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      sums[k] += dy[k] * norm_slope(x[k], y[k], static_cast<T>(pool.p));
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) sums[k] += dy[k] / share;
}

// By how many elements AveragePool divided.
template <typename T>
__device__ __forceinline__ T window_share(const PoolGrad& pool, const Int (&o)[kSpatial]) {
  if (pool.kind == PoolGradKind::kMax || pool.kind == PoolGradKind::kNorm) return T(1);
  Int product = 1;
  for (int i = 0; i < kSpatial; ++i) {
    const WindowAxis& axis = pool.windows.axis[i];
    product *= (pool.kind == PoolGradKind::kAverage ? axis.inside(o[i]) : axis.inside_padded(o[i]))
                   .count();
  }
  return static_cast<T>(product);
}

template <typename T, int kPack>
__global__ void __launch_bounds__(kBlockThreads) pool_grad(PoolGrad pool) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int u = Int{blockIdx.x} * blockDim.x + threadIdx.x; u < pool.units; u += step) {
    const Places::Place mine = pool.x.place(u * kPack);
    const Int plane = pool.y.plane(mine.image, mine.channel);
    const Int index = (mine.image * pool.x.channels.value() + mine.channel) * pool.x.pixels() +
                      pool.x.pixel(mine.at[0], mine.at[1], mine.at[2]);
    T x[kPack] = {}, sums[kPack] = {};
    if (pool.kind == PoolGradKind::kNorm) load_packed(pool.x_in, u * kPack, x);
    const WindowRange od = pool.windows.axis[0].covering(mine.at[0]);
    const WindowRange oh = pool.windows.axis[1].covering(mine.at[1]);
    const WindowRange ow = pool.windows.axis[2].covering(mine.at[2]);
    Int o[kSpatial];
    for (o[0] = od.first; o[0] < od.last; ++o[0]) {
      if (pool.windows.axis[0].tap(mine.at[0], o[0]) < 0) continue;
      for (o[1] = oh.first; o[1] < oh.last; ++o[1]) {
        if (pool.windows.axis[1].tap(mine.at[1], o[1]) < 0) continue;
        for (o[2] = ow.first; o[2] < ow.last; ++o[2]) {
          if (pool.windows.axis[2].tap(mine.at[2], o[2]) < 0) continue;
          const Int at = plane + pool.y.pixel(o[0], o[1], o[2]) * pool.y.pixel_step();
          add_window(pool, at, window_share<T>(pool, o), index, x, sums);
        }
      }
    }
    store_packed(pool.dx, u * kPack, sums);
  }
}

// Sums of MaxPoolGrad by planes: sums[N,C,pixels of x] row-major, zero before.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    scatter_planes(PoolGrad pool, T* sums, Int planes) {
  const Int step = Int{gridDim.x} * blockDim.x;
  const Int pixels = pool.x.pixels();
  for (Int p = Int{blockIdx.x} * blockDim.x + threadIdx.x; p < planes; p += step) {
    Int channel = 0;
    const Int image = pool.y.channels.divide(p, channel);
    const Int from = pool.y.plane(image, channel);
    for (Int window = 0; window < pool.y.pixels(); ++window) {
      const Int at = from + window * pool.y.pixel_step();
      const Int index = pool.indices[at];
      if (index == -1) continue;
      if (index < p * pixels || index >= (p + 1) * pixels) {
        report_fault(pool.fault, pool.step, 1, at, index);
        continue;
      }
      sums[index] += load_float<T>(pool.dy, at);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlockThreads) store_planes(PoolGrad pool, const T* sums) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int i = Int{blockIdx.x} * blockDim.x + threadIdx.x; i < pool.units; i += step) {
    const Places::Place mine = pool.x.place(i);
    const Int at = (mine.image * pool.x.channels.value() + mine.channel) * pool.x.pixels() +
                   pool.x.pixel(mine.at[0], mine.at[1], mine.at[2]);
    store_float(pool.dx, i, sums[at]);
  }
}

namespace {

// Operand dy and, per kind, others; dx[..] is result 0.
StatusOr<PoolGrad> read_pool_grad(const KernelRequest& request) {
  const TensorDesc& dy = operand(request, 0);
  const TensorDesc& dx = result(request, 0);
  const bool last = is_channels_last(dx) || is_channels_last(dy);
  std::vector<const TensorDesc*> all = {&dx};
  for (const TensorDesc& desc : request.inputs) all.push_back(&desc);
  for (const TensorDesc* desc : all) {
    if (last && desc->layout_matters() && !is_channels_last(*desc)) {
      return unimplemented("operands in different layouts");
    }
  }
  PoolGrad pool;
  if (dx.dims.size() < 3 || dx.dims.size() > 2 + kSpatial) {
    return unimplemented("more than 3 spatial dims");
  }
  pool.windows = read_windows(request, dx, dy);
  pool.x = places_of(dx);
  pool.y = places_of(dy);
  pool.x.channels_last = pool.y.channels_last = last ? 1 : 0;
  pool.elems = pool.units = dx.elems();
  pool.dy.dtype = dy.dtype;
  pool.dx.dtype = dx.dtype;
  return pool;
}

Status launch_gather(PoolGrad pool, bool is_double, const KernelArguments& arguments) {
  pool.dy.data = arguments.inputs[0];
  pool.dx.data = arguments.outputs[0];
  pool.fault = arguments.fault;
  pool.step = arguments.step;
  const bool packed = pool.x.channels_last != 0 && pool.x.channels.value() % kGradPack == 0 &&
                      is_aligned_16({pool.dy.data, pool.x_in.data, pool.y_in.data, pool.dx.data});
  if (packed) pool.units /= kGradPack;
  return with_real(is_double, [&](auto real) {
    using T = decltype(real);
    if (packed) {
      return launch<pool_grad<T, kGradPack>>(shape_for(pool.units), arguments.stream, pool);
    }
    return launch<pool_grad<T, 1>>(shape_for(pool.units), arguments.stream, pool);
  });
}

PreparedKernel prepare_average_pool_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(PoolGrad pool, read_pool_grad(request));
  pool.kind = request.attributes.get_int("count_include_pad", 0) != 0
                  ? PoolGradKind::kAverageWithPadding
                  : PoolGradKind::kAverage;
  return make_layer(
      "cuda:pool-grad", [pool, is_double = has_double(request)](const KernelArguments& arguments) {
        return pool.units == 0 ? ok_status() : launch_gather(pool, is_double, arguments);
      });
}

PreparedKernel prepare_lp_pool_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(PoolGrad pool, read_pool_grad(request));
  pool.kind = PoolGradKind::kNorm;
  pool.p = request.attributes.get_float("p", 2.0);
  pool.x_in.dtype = operand(request, 1).dtype;
  pool.y_in.dtype = operand(request, 2).dtype;
  return make_layer("cuda:pool-grad",
                    [pool, is_double = has_double(request)](const KernelArguments& arguments) {
                      if (pool.units == 0) return ok_status();
                      PoolGrad filled = pool;
                      filled.x_in.data = arguments.inputs[1];
                      filled.y_in.data = arguments.inputs[2];
                      return launch_gather(filled, is_double, arguments);
                    });
}

Explain explain_index(Int elems) {
  return [elems](const DeviceFault& fault) {
    return invalid_argument("MaxPoolGrad, operand 1 'indices': element " +
                            std::to_string(fault.position) + " is " + std::to_string(fault.value) +
                            ", expected 0 to " + std::to_string(elems - 1));
  };
}

// Without knowing the windows.
template <typename T>
Status launch_scatter(PoolGrad pool, Int planes, const KernelArguments& arguments) {
  auto* sums = static_cast<T*>(arguments.workspace);
  pool.dy.data = arguments.inputs[0];
  pool.dx.data = arguments.outputs[0];
  pool.fault = arguments.fault;
  pool.step = arguments.step;
  MEZZO_RETURN_IF_ERROR(check(
      "cudaMemsetAsync", cudaMemsetAsync(sums, 0, static_cast<std::size_t>(pool.units) * sizeof(T),
                                         static_cast<cudaStream_t>(arguments.stream))));
  MEZZO_RETURN_IF_ERROR(
      (launch<scatter_planes<T>>(shape_for(planes), arguments.stream, pool, sums, planes)));
  return launch<store_planes<T>>(shape_for(pool.units), arguments.stream, pool, sums);
}

PreparedKernel prepare_max_pool_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(PoolGrad pool, read_pool_grad(request));
  pool.kind = PoolGradKind::kMax;
  const Int elems = pool.elems;
  if (elems == 0 && operand(request, 0).elems() > 0) return unimplemented("windows of nothing");
  const Int planes = elems == 0 ? 0 : elems / pool.x.pixels();
  const bool is_double = has_double(request);
  const bool knows_windows = request.attributes.has("kernel_shape");
  WorkspacePlan workspace;
  if (!knows_windows) workspace.add(elems);
  return make_layer(
      "cuda:pool-grad",
      [=](const KernelArguments& arguments) {
        PoolGrad filled = pool;
        filled.indices = static_cast<const Int*>(arguments.inputs[1]);
        if (elems == 0) return ok_status();
        if (knows_windows) return launch_gather(filled, is_double, arguments);
        return with_real(is_double, [&](auto real) {
          return launch_scatter<decltype(real)>(filled, planes, arguments);
        });
      },
      workspace.bytes(), explain_index(elems));
}

constexpr KernelEntry kRows[] = {
    {"MaxPoolGrad", "cuda", prepare_max_pool_grad},
    {"AveragePoolGrad", "cuda", prepare_average_pool_grad},
    {"LpPoolGrad", "cuda", prepare_lp_pool_grad},
};

}  // namespace

std::span<const KernelEntry> pool_grad_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
