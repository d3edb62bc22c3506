// MaxPool, AveragePool and LpPool: x[N,C,..] -> y[N,C,..] with 1 to 3 spatial axes, row-major or
// channels-last. A thread takes one window of one channel; channels-last, kPoolPack channels of one
// window where C allows it, so that accesses are of 16 bytes.
//
// MaxPool compares as the reference does: the first of equal values, NaN before any number; a
// window of padding alone gives the least there is and index -1. Sums are in float32 (float64 where
// an operand is), in the order of the window.
#include <cmath>
#include <limits>

#include "kernels/cuda/rows.h"
#include "kernels/cuda/windows.h"

namespace mezzo::kernels::cuda {

inline constexpr int kPoolPack = 8;
inline constexpr Int kSignBit = std::numeric_limits<Int>::min();

template <typename T>
inline constexpr T kLeastNumber = -std::numeric_limits<T>::infinity();
template <>
inline constexpr Int kLeastNumber<Int> = kSignBit;

// Elements for comparing: floating numbers, or integers of any dtype in the order of int64.
template <typename T, int kPack>
__device__ __forceinline__ void load_comparable(const FloatsIn& x, Int at, T (&to)[kPack]) {
  if constexpr (std::is_same_v<T, Int>) {
    load_elements(x.data, at, x.dtype, to);
    if (x.dtype != DType::kUInt64) return;
#pragma unroll
    for (int k = 0; k < kPack; ++k) to[k] ^= kSignBit;
  } else {
    load_packed(x, at, to);
  }
}

// The least number of an integer dtype is that of a signed one, or 0.
template <typename T, int kPack>
__device__ __forceinline__ void store_comparable(const FloatsOut& y, Int at, T (&from)[kPack]) {
  if constexpr (std::is_same_v<T, Int>) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      if (y.dtype == DType::kUInt64) {
        from[k] ^= kSignBit;
      } else if (from[k] == kSignBit) {
        switch (y.dtype) {
          case DType::kInt8: from[k] = -128; break;
          case DType::kInt16: from[k] = -32768; break;
          case DType::kInt32: from[k] = -2147483648LL; break;
          case DType::kInt64: break;
          default: from[k] = 0; break;
        }
      }
    }
    store_elements(y.data, at, y.dtype, from);
  } else {
    store_packed(y, at, from);
  }
}

struct PoolShape {
  Windows windows;
  Places x, y;
  Int units = 0;                  // windows of a channel, or of a pack of them
  std::int32_t column_major = 0;  // MaxPool: how indices count within a plane

  // The window of thread-unit `number`.
  template <int kPack>
  __device__ __forceinline__ Places::Place window(Int number) const {
    return y.place(number * kPack);
  }
  __device__ Int index_of(Int image, Int channel, Int pixel) const {
    if (column_major != 0) {
      Int w = 0, h = 0;
      const Int d = x.height.divide(x.width.divide(pixel, w), h);
      pixel = d + x.depth.value() * (h + x.height.value() * w);
    }
    return (image * x.channels.value() + channel) * x.pixels() + pixel;
  }
};

// indices may be absent.
template <typename T, int kPack>
__global__ void __launch_bounds__(kBlockThreads)
    max_pool(FloatsIn x, FloatsOut y, Int* indices, PoolShape shape) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int u = Int{blockIdx.x} * blockDim.x + threadIdx.x; u < shape.units; u += step) {
    const Places::Place window = shape.window<kPack>(u);
    const Int plane = shape.x.plane(window.image, window.channel);
    T best[kPack];
    Int pixels[kPack];
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      best[k] = kLeastNumber<T>;
      pixels[k] = -1;
    }
    for_each_inside(shape.windows, window.at, shape.x, [&](Int pixel) {
      T values[kPack] = {};
      load_comparable(x, plane + pixel * shape.x.pixel_step(), values);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const bool is_nan = values[k] != values[k] && best[k] == best[k];
        if (pixels[k] >= 0 && !(values[k] > best[k]) && !is_nan) continue;
        best[k] = values[k];
        pixels[k] = pixel;
      }
    });
    store_comparable(y, u * kPack, best);
    if (indices == nullptr) continue;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      indices[u * kPack + k] =
          pixels[k] < 0 ? -1 : shape.index_of(window.image, window.channel + k, pixels[k]);
    }
  }
}

// What is summed up, and what becomes of the sum.
enum class PoolSum : std::uint8_t { kAverage, kAverageWithPadding, kNorm };

template <typename T>
__device__ __forceinline__ T power(T x, T p) {
  if (p == T(1)) return std::fabs(x);
  return p == T(2) ? x * x : std::pow(std::fabs(x), p);
}

template <typename T>
__device__ __forceinline__ T root(T sum, T p) {
  if (p == T(1)) return sum;
  return p == T(2) ? std::sqrt(sum) : std::pow(sum, T(1) / p);
}

// By how many elements the sum of a window is divided.
__device__ inline Int window_divisor(const Windows& windows, const Int (&o)[kSpatial],
                                     bool with_padding) {
  Int product = 1;
  for (int i = 0; i < kSpatial; ++i) {
    const WindowAxis& axis = windows.axis[i];
    product *= (with_padding ? axis.inside_padded(o[i]) : axis.inside(o[i])).count();
  }
  return product;
}

template <typename T, int kPack>
__global__ void __launch_bounds__(kBlockThreads)
    sum_pool(FloatsIn x, FloatsOut y, PoolShape shape, PoolSum kind, double p) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int u = Int{blockIdx.x} * blockDim.x + threadIdx.x; u < shape.units; u += step) {
    const Places::Place window = shape.window<kPack>(u);
    const Int plane = shape.x.plane(window.image, window.channel);
    T sums[kPack] = {};
    for_each_inside(shape.windows, window.at, shape.x, [&](Int pixel) {
      T values[kPack] = {};
      load_packed(x, plane + pixel * shape.x.pixel_step(), values);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        sums[k] += kind == PoolSum::kNorm ? power(values[k], static_cast<T>(p)) : values[k];
      }
    });
    const Int count = kind == PoolSum::kNorm ? 1
                                             : window_divisor(shape.windows, window.at,
                                                              kind == PoolSum::kAverageWithPadding);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      if (kind == PoolSum::kNorm) {
        sums[k] = root(sums[k], static_cast<T>(p));
      } else {
        sums[k] = count == 0 ? T(0) : sums[k] / static_cast<T>(count);
      }
    }
    store_packed(y, u * kPack, sums);
  }
}

namespace {

StatusOr<PoolShape> read_pool(const KernelRequest& request) {
  const TensorDesc& x = operand(request, 0);
  const TensorDesc& y = result(request, 0);
  // A plane of one pixel lies alike in every layout: then numbering goes by the other one.
  const bool last = is_channels_last(x) || is_channels_last(y);
  for (const TensorDesc* desc : {&x, &y, &result(request, 1)}) {
    if (last && desc->present() && desc->layout_matters() && !is_channels_last(*desc)) {
      return unimplemented("operands in different layouts");
    }
  }
  PoolShape shape;
  shape.windows = read_windows(request, x, y);
  shape.x = places_of(x);
  shape.y = places_of(y);
  shape.x.channels_last = shape.y.channels_last = last ? 1 : 0;
  shape.units = y.elems();
  shape.column_major = request.attributes.get_int("storage_order", 0) != 0 ? 1 : 0;
  return shape;
}

bool takes_packs(const PoolShape& shape, std::initializer_list<const void*> buffers) {
  return shape.x.channels_last != 0 && shape.x.channels.value() % kPoolPack == 0 &&
         is_aligned_16(buffers);
}

template <typename T>
Status launch_max_pool(PoolShape shape, const FloatsIn& x, const FloatsOut& y, Int* indices,
                       void* stream) {
  if constexpr (!std::is_same_v<T, Int>) {
    if (takes_packs(shape, {x.data, y.data, indices})) {
      shape.units /= kPoolPack;
      return launch<max_pool<T, kPoolPack>>(shape_for(shape.units), stream, x, y, indices, shape);
    }
  }
  return launch<max_pool<T, 1>>(shape_for(shape.units), stream, x, y, indices, shape);
}

PreparedKernel prepare_max_pool(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const PoolShape shape, read_pool(request));
  return make_layer("cuda:max-pool",
                    [shape, x_dtype = operand(request, 0).dtype, y_dtype = result(request, 0).dtype,
                     is_double = has_double(request)](const KernelArguments& arguments) {
                      if (shape.units == 0) return ok_status();
                      const FloatsIn x{arguments.inputs[0], x_dtype};
                      const FloatsOut y{arguments.outputs[0], y_dtype};
                      auto* indices = static_cast<Int*>(result_data(arguments, 1));
                      if (!is_floating(x_dtype)) {
                        return launch_max_pool<Int>(shape, x, y, indices, arguments.stream);
                      }
                      return with_real(is_double, [&](auto real) {
                        return launch_max_pool<decltype(real)>(shape, x, y, indices,
                                                               arguments.stream);
                      });
                    });
}

PreparedKernel prepare_sum_pool(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const PoolShape shape, read_pool(request));
  PoolSum kind = PoolSum::kNorm;
  if (request.op == "AveragePool") {
    kind = request.attributes.get_int("count_include_pad", 0) != 0 ? PoolSum::kAverageWithPadding
                                                                   : PoolSum::kAverage;
  }
  return make_layer("cuda:sum-pool",
                    [shape, kind, p = request.attributes.get_float("p", 2.0),
                     x_dtype = operand(request, 0).dtype, y_dtype = result(request, 0).dtype,
                     is_double = has_double(request)](const KernelArguments& arguments) {
                      if (shape.units == 0) return ok_status();
                      const FloatsIn x{arguments.inputs[0], x_dtype};
                      const FloatsOut y{arguments.outputs[0], y_dtype};
                      return with_real(is_double, [&](auto real) {
                        using T = decltype(real);
                        PoolShape units = shape;
                        if (takes_packs(shape, {x.data, y.data})) {
                          units.units /= kPoolPack;
                          return launch<sum_pool<T, kPoolPack>>(
                              shape_for(units.units), arguments.stream, x, y, units, kind, p);
                        }
                        return launch<sum_pool<T, 1>>(shape_for(units.units), arguments.stream, x,
                                                      y, units, kind, p);
                      });
                    });
}

constexpr KernelEntry kRows[] = {
    {"MaxPool", "cuda", prepare_max_pool},
    {"AveragePool", "cuda", prepare_sum_pool},
    {"LpPool", "cuda", prepare_sum_pool},
};

}  // namespace

std::span<const KernelEntry> pool_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
