// Resize and ResizeGrad by the tables of kernels/resample.h, which are copied to the device when
// the kernel is prepared. Up to kMostResized dims are resized; any numeric dtype, both layouts.
//
// A thread per element of the result. To the nearest element: bits are moved. Else the sum over the
// taps of all dims, innermost dim first, weights and sums in float32 for floating dtypes without
// float64 and in double for all others; rounded once, integers to the nearest even, saturating.
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

// The tables of one resized dim, [out, taps].
struct ResizedDim {
  const Int* indices = nullptr;
  const double* weights = nullptr;
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

// T: float or double.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    resize_blended(ResizeShape shape, const void* x, DType x_dtype, void* y, DType y_dtype,
                   int rounds) {
  const Int threads = Int{gridDim.x} * blockDim.x;
  // Dims that are not there have one tap, of weight 1, on the element itself.
  const auto taps = [&](int d) { return d < shape.resized_count ? shape.tables[d].taps : Int{1}; };
  const auto weight = [&](int d, Int tap) {
    return d < shape.resized_count ? static_cast<T>(shape.tables[d].weights[tap]) : T(1);
  };
  const auto offset = [&](int d, Int tap) {
    return d < shape.resized_count ? shape.tables[d].indices[tap] * shape.tables[d].step : Int{0};
  };
  for (Int i = Int{blockIdx.x} * blockDim.x + threadIdx.x; i < shape.elems; i += threads) {
    Int start = 0, at[kMostResized];
    T sum = static_cast<T>(shape.extrapolation);
    if (shape.locate(i, start, at)) {
      sum = T(0);
      for (int d = 0; d < kMostResized; ++d) at[d] *= taps(d);
      for (Int t0 = at[0]; t0 < at[0] + taps(0); ++t0) {
        const T w0 = weight(0, t0);
        if (w0 == T(0)) continue;
        T sum1 = T(0);
        for (Int t1 = at[1]; t1 < at[1] + taps(1); ++t1) {
          const T w1 = weight(1, t1);
          if (w1 == T(0)) continue;
          const Int row = start + offset(0, t0) + offset(1, t1);
          T sum2 = T(0);
          for (Int t2 = at[2]; t2 < at[2] + taps(2); ++t2) {
            const T w2 = weight(2, t2);
            if (w2 != T(0)) sum2 += w2 * load_element<T>(x, row + offset(2, t2), x_dtype);
          }
          sum1 += w1 * sum2;
        }
        sum += w0 * sum1;
      }
    }
    store_element(y, i, y_dtype, rounds != 0 ? std::nearbyint(sum) : sum);
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
    if (!nearest_) {
      const bool floats = is_floating(from_) && from_ != DType::kFloat64 && is_floating(to_) &&
                          to_ != DType::kFloat64;
      return with_real(!floats, [&](auto real) {
        return launch<resize_blended<decltype(real)>>(
            shape_for(shape_.elems), arguments.stream, shape_, arguments.inputs[0], from_,
            arguments.outputs[0], to_, is_floating(to_) ? 0 : 1);
      });
    }
    switch (dtype_bits(from_)) {
      case 8: return move<std::uint8_t>(arguments);
      case 16: return move<std::uint16_t>(arguments);
      case 32: return move<std::uint32_t>(arguments);
      default: return move<std::uint64_t>(arguments);
    }
  }

 private:
  template <typename U>
  Status move(const KernelArguments& arguments) const {
    return launch<resize_nearest<U>>(shape_for(shape_.elems), arguments.stream, shape_,
                                     static_cast<const U*>(arguments.inputs[0]),
                                     static_cast<U*>(arguments.outputs[0]), from_);
  }

  ResizeShape shape_;
  Tables tables_;
  bool nearest_;
  DType from_, to_;
};

// The dims of x and y in the order of memory, with tables for the axes.
StatusOr<ResizeShape> make_shape(const Resampling& resampling, const Dims& x, const Dims& y,
                                 Tables& tables) {
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
    MEZZO_ASSIGN_OR_RETURN(table.indices, tables.add(axis.indices));
    MEZZO_ASSIGN_OR_RETURN(table.weights, tables.add(axis.weights));
    std::vector<std::uint8_t> outside(axis.outside.begin(), axis.outside.end());
    MEZZO_ASSIGN_OR_RETURN(table.outside, tables.add(outside));
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
    MEZZO_ASSIGN_OR_RETURN(shape, make_shape(resampling, x_dims, y_dims, tables));
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
