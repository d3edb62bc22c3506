// GlobalAveragePoolGrad: dy[N,C,1..] -> dx[N,C,D1..Dk] = dy / (D1 .. Dk). Any layout.
#include "kernels/cuda/element.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {

constexpr int kSpread = 4;  // neighbours in dx that a thread writes

// View 0: dx, view 1: dy, in steps of `width` (1 or kSpread) neighbours of dx; dy_step elements of
// dy lie between two of them.
template <typename T>
__global__ void spread_mean(StridedIndex<2> index, int width, Int dy_step, T factor, const void* dy,
                            DType dy_dtype, void* dx, DType dx_dtype) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < index.elems;
       number += step) {
    Int at[2];
    index.offsets(number, at);
    T values[kSpread];
    if (dy_step == 1) {
      load_elements<T, kSpread>(dy, at[1], dy_dtype, values, width);
    } else {
      const T value = load_element<T>(dy, at[1], dy_dtype);
#pragma unroll
      for (int k = 0; k < kSpread; ++k) values[k] = value;
    }
#pragma unroll
    for (int k = 0; k < kSpread; ++k) values[k] *= factor;
    store_elements<T, kSpread>(dx, at[0], dx_dtype, values, width);
  }
}

namespace {

constexpr std::string_view kName = "cuda:spread";

Prepared global_average_pool_grad(const KernelRequest& request) {
  const TensorDesc& dy = request.inputs[0];
  const TensorDesc& dx = request.outputs[0];
  if (!is_floating(dy.dtype) || !is_floating(dx.dtype)) return unimplemented("dtype");
  const auto order = memory_order(dx.dims.size(), dx.layout);
  Dims sizes = ordered(dx.dims, order);
  Dims dx_strides = ordered(strides_within(dx, dx.dims), order);
  Dims dy_strides = ordered(strides_within(dy, dx.dims), order);
  Int places = 1;
  for (std::size_t d = 2; d < dx.dims.size(); ++d) places *= dx.dims[d];
  const double factor = 1.0 / static_cast<double>(places);
  // Neighbours in the innermost dim: the same element of dy, or as many.
  const Int dy_step = dy_strides.back();
  const int width = sizes.back() % kSpread == 0 && dy_step <= 1 ? kSpread : 1;
  sizes.back() /= width;
  dx_strides.back() *= width;
  dy_strides.back() *= width;
  const auto index = make_index<2>(sizes, {dx_strides, dy_strides});
  const bool in_double = dy.dtype == DType::kFloat64 || dx.dtype == DType::kFloat64;
  return make_kernel(
      kName, 0,
      [index, width, dy_step, factor, in_double, from = dy.dtype,
       to = dx.dtype](const KernelArguments& arguments) {
        if (index.elems == 0) return ok_status();
        const auto shape = shape_for(index.elems);
        return in_double
                   ? launch<spread_mean<double>>(shape, arguments.stream, index, width, dy_step,
                                                 factor, arguments.inputs[0], from,
                                                 arguments.outputs[0], to)
                   : launch<spread_mean<float>>(shape, arguments.stream, index, width, dy_step,
                                                static_cast<float>(factor), arguments.inputs[0],
                                                from, arguments.outputs[0], to);
      });
}

constexpr KernelEntry kRows[] = {{"GlobalAveragePoolGrad", kName, global_average_pool_grad}};

}  // namespace

std::span<const KernelEntry> global_pool_grad_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
