// Resize and ResizeGrad by the tables of kernels/resample.h, which are copied to the device when
// the kernel is prepared. Up to kMostResized dims are resized; any numeric dtype, both layouts.
//
// A thread per element of the result, or per kResizePack neighbours where their dim is kept. To the
// nearest element: bits are moved. Else the sum over the taps of all dims, innermost dim first,
// weights and sums in float32 for floating dtypes without float64 and in double for all others;
// rounded once, integers to the nearest even, saturating.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/device_table.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"
#include "kernels/cuda/rows.h"
#include "kernels/resample.h"

namespace mezzo::kernels::cuda {

inline constexpr int kMostResized = 3;
inline constexpr int kResizePack = 8;

// The tables of one resized dim, [out, taps].
struct ResizedDim {
  const std::int32_t* indices = nullptr;
  const void* weights = nullptr;          // float or double, as the sums
  const std::uint8_t* outside = nullptr;  // [out], or null: none
  Int taps = 1;
  Int step = 1;  // elements of x between neighbours
};

// Dims of the result in the order of memory, those that are kept joined.
struct ResizeShape {
  static constexpr int kMostDims = 2 * kMostResized + 1;
  int rank = 0, resized_count = 0;
  Divisor sizes[kMostDims];
  Int steps[kMostDims] = {};             // of x, where the dim is kept
  std::int32_t resized[kMostDims] = {};  // number of its table, or -1
  ResizedDim tables[kMostResized];
  Int elems = 0;
  double extrapolation = 0.0;

  // Where result `number` begins in x, and its place along the resized dims (others 0). False:
  // outside.
  __device__ __forceinline__ bool locate(Int number, Int& start, Int (&at)[kMostResized]) const {
    bool inside = true;
    start = 0;
    for (int i = 0; i < kMostResized; ++i) at[i] = 0;
    for (int d = rank - 1; d >= 0; --d) {
      Int place = 0;
      number = sizes[d].divide(number, place);
#pragma unroll
      for (int i = 0; i < kMostResized; ++i) {
        if (resized[d] != i) continue;
        at[i] = place;
        if (tables[i].outside != nullptr && tables[i].outside[place] != 0) inside = false;
      }
      if (resized[d] < 0) start += place * steps[d];
    }
    return inside;
  }
};

// U: an unsigned integer of as many bytes as an element has.
template <typename U>
__global__ void __launch_bounds__(kBlockThreads)
    resize_nearest(ResizeShape shape, const U* x, U* y, DType dtype) {
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int i = Int{blockIdx.x} * blockDim.x + threadIdx.x; i < shape.elems; i += threads) {
    Int start = 0, at[kMostResized];
    if (!shape.locate(i, start, at)) {
      store_element(y, i, dtype, shape.extrapolation);
      continue;
    }
#pragma unroll
    for (int d = 0; d < kMostResized; ++d) {
      if (d < shape.resized_count) start += shape.tables[d].indices[at[d]] * shape.tables[d].step;
    }
    y[i] = x[start];
  }
}

// The sum over the taps of dims kDim and after it; `row`: where those before lead to.
template <typename T, int kDim>
struct Blend {
  template <int kPack, typename Load>
  __device__ __forceinline__ static void add(const ResizeShape& shape, Int row,
                                             const Int (&at)[kMostResized], const Load& load,
                                             T (&sums)[kPack]) {
    if (kDim >= shape.resized_count) {  // one tap, of weight 1, on the element itself
      Blend<T, kDim + 1>::add(shape, row, at, load, sums);
      return;
    }
    const ResizedDim& table = shape.tables[kDim];
    const Int first = at[kDim] * table.taps;
    for (Int tap = first; tap < first + table.taps; ++tap) {
      const T weight = static_cast<const T*>(table.weights)[tap];
      if (weight == T(0)) continue;
      T part[kPack] = {};
      Blend<T, kDim + 1>::add(shape, row + table.indices[tap] * table.step, at, load, part);
#pragma unroll
      for (int k = 0; k < kPack; ++k) sums[k] += weight * part[k];
    }
  }
};
template <typename T>
struct Blend<T, kMostResized> {
  template <int kPack, typename Load>
  __device__ __forceinline__ static void add(const ResizeShape&, Int row,
                                             const Int (&)[kMostResized], const Load& load,
                                             T (&sums)[kPack]) {
    load(row, sums);
  }
};

// Floating dtypes without float64. kPack: kResizePack or 1.
template <int kPack>
__global__ void __launch_bounds__(kBlockThreads)
    resize_floats(ResizeShape shape, FloatsIn x, FloatsOut y) {
  const Int step = Int{gridDim.x} * blockDim.x * kPack;
  const auto load = [&](Int from, float(&to)[kPack]) { load_packed(x, from, to); };
  for (Int i = (Int{blockIdx.x} * blockDim.x + threadIdx.x) * kPack; i < shape.elems; i += step) {
    Int start = 0, at[kMostResized];
    float sums[kPack];
    const bool inside = shape.locate(i, start, at);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      sums[k] = inside ? 0.0F : static_cast<float>(shape.extrapolation);
    }
    if (inside) Blend<float, 0>::add(shape, start, at, load, sums);
    store_packed(y, i, sums);
  }
}

// Any dtypes.
__global__ void __launch_bounds__(kBlockThreads)
    resize_numbers(ResizeShape shape, const void* x, DType x_dtype, void* y, DType y_dtype) {
  const Int threads = Int{gridDim.x} * blockDim.x;
  const bool rounds = y_dtype != DType::kFloat64 && y_dtype != DType::kFloat32 &&
                      y_dtype != DType::kFloat16 && y_dtype != DType::kBFloat16;
  const auto load = [&](Int from, double(&to)[1]) {
    to[0] = load_element<double>(x, from, x_dtype);
  };
  for (Int i = Int{blockIdx.x} * blockDim.x + threadIdx.x; i < shape.elems; i += threads) {
    Int start = 0, at[kMostResized];
    double sums[1] = {0.0};
    if (shape.locate(i, start, at)) {
      Blend<double, 0>::add(shape, start, at, load, sums);
    } else {
      sums[0] = shape.extrapolation;
    }
    store_element(y, i, y_dtype, rounds ? std::nearbyint(sums[0]) : sums[0]);
  }
}

namespace {

struct Tables {
  std::vector<DeviceTable> held;
  std::size_t bytes = 0;

  template <typename T>
  StatusOr<const T*> add(const std::vector<T>& values) {
    MEZZO_ASSIGN_OR_RETURN(DeviceTable table,
                           DeviceTable::copy_of(values.data(), values.size() * sizeof(T)));
    bytes += table.bytes();
    held.push_back(table);
    return table.as<T>();
  }
};

class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(const ResizeShape& shape, Tables tables, bool nearest, DType from, DType to)
      : shape_(shape), tables_(std::move(tables)), nearest_(nearest), from_(from), to_(to) {}

  std::size_t held_bytes() const override { return tables_.bytes; }
  std::string_view implementation() const override { return "cuda:resize"; }
  Status run(const KernelArguments& arguments) override {
    if (shape_.elems == 0) return ok_status();
    if (nearest_) return move(arguments);
    if (!sums_in_floats(from_, to_)) {
      return launch<resize_numbers>(shape_for(shape_.elems), arguments.stream, shape_,
                                    arguments.inputs[0], from_, arguments.outputs[0], to_);
    }
    const FloatsIn x{arguments.inputs[0], from_};
    const FloatsOut y{arguments.outputs[0], to_};
    const int last = shape_.rank - 1;
    const bool packed = last > 0 && shape_.resized[last] < 0 &&
                        shape_.sizes[last].value() % kResizePack == 0 &&
                        is_aligned_16({x.data, y.data});
    if (packed) {
      return launch<resize_floats<kResizePack>>(shape_for(shape_.elems / kResizePack),
                                                arguments.stream, shape_, x, y);
    }
    return launch<resize_floats<1>>(shape_for(shape_.elems), arguments.stream, shape_, x, y);
  }

  // Otherwise in double.
  static bool sums_in_floats(DType from, DType to) {
    const auto is_narrower = [](DType dtype) {
      return is_floating(dtype) && dtype != DType::kFloat64;
    };
    return is_narrower(from) && is_narrower(to);
  }

 private:
  Status move(const KernelArguments& arguments) const {
    switch (dtype_bits(from_)) {
      case 8: return move_as<std::uint8_t>(arguments);
      case 16: return move_as<std::uint16_t>(arguments);
      case 32: return move_as<std::uint32_t>(arguments);
      default: return move_as<std::uint64_t>(arguments);
    }
  }

  template <typename U>
  Status move_as(const KernelArguments& arguments) const {
    return launch<resize_nearest<U>>(shape_for(shape_.elems), arguments.stream, shape_,
                                     static_cast<const U*>(arguments.inputs[0]),
                                     static_cast<U*>(arguments.outputs[0]), from_);
  }

  ResizeShape shape_;
  Tables tables_;
  bool nearest_;
  DType from_, to_;
};

template <typename To, typename From>
std::vector<To> cast_all(const std::vector<From>& values) {
  std::vector<To> cast;
  for (const From value : values) cast.push_back(static_cast<To>(value));
  return cast;
}

// The dims of x and y in the order of memory, with tables for the axes.
StatusOr<ResizeShape> make_shape(const Resampling& resampling, const Dims& x, const Dims& y,
                                 bool in_floats, Tables& tables) {
  ResizeShape shape;
  shape.elems = 1;
  shape.extrapolation = resampling.extrapolation;
  std::size_t next = 0;
  Int step = 1;
  for (const Int size : x) step *= size;
  for (std::size_t d = 0; d < x.size(); ++d) {
    step /= std::max<Int>(x[d], 1);
    shape.elems *= y[d];
    const bool resized = next < resampling.axes.size() && resampling.axes[next].dim == d;
    if (!resized && shape.rank > 0 && shape.resized[shape.rank - 1] < 0) {
      const int last = shape.rank - 1;
      shape.sizes[last] = Divisor(shape.sizes[last].value() * y[d]);
      shape.steps[last] = step;
      continue;
    }
    shape.sizes[shape.rank] = Divisor(y[d]);
    shape.steps[shape.rank] = step;
    shape.resized[shape.rank] = resized ? static_cast<std::int32_t>(next) : -1;
    ++shape.rank;
    if (!resized) continue;
    const ResampledAxis& axis = resampling.axes[next];
    ResizedDim& table = shape.tables[next++];
    table.taps = axis.taps;
    table.step = step;
    if (axis.in >= kNarrowLimit) return unimplemented("a resized dim of 2^31 elements or more");
    MEZZO_ASSIGN_OR_RETURN(table.indices, tables.add(cast_all<std::int32_t>(axis.indices)));
    if (in_floats) {
      MEZZO_ASSIGN_OR_RETURN(table.weights, tables.add(cast_all<float>(axis.weights)));
    } else {
      MEZZO_ASSIGN_OR_RETURN(table.weights, tables.add(axis.weights));
    }
    MEZZO_ASSIGN_OR_RETURN(table.outside, tables.add(cast_all<std::uint8_t>(axis.outside)));
  }
  shape.resized_count = static_cast<int>(next);
  return shape;
}

PreparedKernel prepare_resize(const KernelRequest& request) {
  const TensorDesc& x = operand(request, 0);
  const TensorDesc& y = result(request, 0);
  if (!has_elements(x.dtype) || !has_elements(y.dtype)) return unimplemented("a narrow dtype");
  MEZZO_RETURN_IF_ERROR(expect_one_layout({&x, &y}));
  MEZZO_ASSIGN_OR_RETURN(Resampling resampling, request.op == "ResizeGrad"
                                                    ? read_resampling_grad(request)
                                                    : read_resampling(request));
  if (resampling.axes.size() > kMostResized) {
    return unimplemented("more than " + std::to_string(kMostResized) + " resized dims");
  }
  Dims x_dims = x.dims, y_dims = y.dims;
  to_memory_order(common_layout(x, y), resampling, x_dims, y_dims);
  Tables tables;
  ResizeShape shape;
  if (y.elems() > 0) {
    MEZZO_ASSIGN_OR_RETURN(shape,
                           make_shape(resampling, x_dims, y_dims,
                                      ResizeKernel::sums_in_floats(x.dtype, y.dtype), tables));
  }
  const bool nearest = resampling.nearest && x.dtype == y.dtype;
  return std::unique_ptr<Kernel>(
      std::make_unique<ResizeKernel>(shape, std::move(tables), nearest, x.dtype, y.dtype));
}

constexpr KernelEntry kRows[] = {
    {"Resize", "cuda", prepare_resize},
    {"ResizeGrad", "cuda", prepare_resize},
};

}  // namespace

std::span<const KernelEntry> resize_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
