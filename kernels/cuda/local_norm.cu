// MeanVarianceNormalization and LRN.
//
//   MeanVarianceNormalization  y = (x - mean) / (deviation + 1e-9), over any set of dims
//   LRN                        y = x / (bias + alpha / size sum of x^2)^beta, the sum over the
//                              channels c - floor((size - 1) / 2) to c + ceil((size - 1) / 2)
//
// Any floating dtypes; float32 (float64 where an operand is), the mean first, then the squared
// distances from it.
#include <cmath>

#include "kernels/cuda/channel_sums.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {

// A block per set of elements: `outer` has an element for each, at its first one in x and y;
// `inner` says where the others are from there.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    normalise_sets(FloatsIn x, FloatsOut y, StridedIndex<2> outer, StridedIndex<2> inner) {
  const T count = static_cast<T>(inner.elems);
  for (Int set = blockIdx.x; set < outer.elems; set += gridDim.x) {
    Int start[2], at[2];
    outer.offsets(set, start);
    T sum = T(0);
    for (Int i = threadIdx.x; i < inner.elems; i += blockDim.x) {
      inner.offsets(i, at);
      sum += load_float<T>(x, start[0] + at[0]);
    }
    const T mean = block_sum(sum) / count;
    sum = T(0);
    for (Int i = threadIdx.x; i < inner.elems; i += blockDim.x) {
      inner.offsets(i, at);
      const T distance = load_float<T>(x, start[0] + at[0]) - mean;
      sum += distance * distance;
    }
    const T deviation = std::sqrt(block_sum(sum) / count) + T(1e-9);
    for (Int i = threadIdx.x; i < inner.elems; i += blockDim.x) {
      inner.offsets(i, at);
      store_float(y, start[1] + at[1], (load_float<T>(x, start[0] + at[0]) - mean) / deviation);
    }
  }
}

struct ChannelWindow {
  double alpha = 1e-4, beta = 0.75, bias = 1.0;
  Int before = 0, after = 0;  // channels of the window beside the middle
  double size = 1.0;
};

// step: elements between neighbouring channels.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    normalise_channels(FloatsIn x, FloatsOut y, Int elems, Divisor channels, Divisor step,
                       ChannelWindow window) {
  const Int threads = Int{gridDim.x} * blockDim.x;
  const T share = static_cast<T>(window.alpha / window.size);
  for (Int i = Int{blockIdx.x} * blockDim.x + threadIdx.x; i < elems; i += threads) {
    Int c = 0;
    channels.divide(step.quotient(i), c);
    const Int first = c < window.before ? -c : -window.before;
    const Int room = channels.value() - 1 - c;
    const Int last = room < window.after ? room : window.after;
    T sum = T(0);
    for (Int other = first; other <= last; ++other) {
      const T value = load_float<T>(x, i + other * step.value());
      sum += value * value;
    }
    const T base = static_cast<T>(window.bias) + share * sum;
    store_float(y, i, load_float<T>(x, i) / std::pow(base, static_cast<T>(window.beta)));
  }
}

namespace {

PreparedKernel prepare_mean_variance(const KernelRequest& request) {
  const TensorDesc& x = operand(request, 0);
  const TensorDesc& y = result(request, 0);
  const std::size_t rank = x.dims.size();
  Dims axes = {0, 2, 3};
  if (request.attributes.has("axes")) axes = request.attributes.get_ints("axes");
  std::vector<bool> inside(rank, axes.empty());
  for (const Int axis : axes) {
    inside[static_cast<std::size_t>(axis < 0 ? axis + static_cast<Int>(rank) : axis)] = true;
  }
  const Dims x_strides = strides_within(x, x.dims), y_strides = strides_within(y, y.dims);
  Dims sizes[2];  // of the sets, and of the elements of one
  std::array<Dims, 2> strides[2];
  for (const std::size_t d : memory_order(rank, x.layout)) {
    const std::size_t part = inside[d] ? 1 : 0;
    sizes[part].push_back(x.dims[d]);
    strides[part][0].push_back(x_strides[d]);
    strides[part][1].push_back(y_strides[d]);
  }
  return make_layer("cuda:set-norm", [outer = make_index<2>(sizes[0], strides[0]),
                                      inner = make_index<2>(sizes[1], strides[1]),
                                      x_dtype = x.dtype, y_dtype = y.dtype,
                                      is_double =
                                          has_double(request)](const KernelArguments& arguments) {
    if (outer.elems == 0 || inner.elems == 0) return ok_status();
    const LaunchShape shape{dim3(static_cast<unsigned>(std::min<Int>(outer.elems, Int{1} << 20))),
                            dim3(kBlockThreads), 0};
    return with_real(is_double, [&](auto real) {
      return launch<normalise_sets<decltype(real)>>(
          shape, arguments.stream, FloatsIn{arguments.inputs[0], x_dtype},
          FloatsOut{arguments.outputs[0], y_dtype}, outer, inner);
    });
  });
}

PreparedKernel prepare_lrn(const KernelRequest& request) {
  const TensorDesc& x = operand(request, 0);
  MEZZO_RETURN_IF_ERROR(expect_one_layout({&x, &result(request, 0)}));
  const ChannelShape shape = channel_shape(x);
  const Int size = request.attributes.get_int("size", 1);
  ChannelWindow window;
  window.alpha = request.attributes.get_float("alpha", 1e-4);
  window.beta = request.attributes.get_float("beta", 0.75);
  window.bias = request.attributes.get_float("bias", 1.0);
  window.before = (size - 1) / 2;
  window.after = size / 2;
  window.size = static_cast<double>(size);
  return make_layer(
      "cuda:lrn", [shape, window, x_dtype = x.dtype, y_dtype = result(request, 0).dtype,
                   is_double = has_double(request)](const KernelArguments& arguments) {
        if (shape.elems() == 0) return ok_status();
        return with_real(is_double, [&](auto real) {
          return launch<normalise_channels<decltype(real)>>(
              shape_for(shape.elems()), arguments.stream, FloatsIn{arguments.inputs[0], x_dtype},
              FloatsOut{arguments.outputs[0], y_dtype}, shape.elems(), Divisor(shape.channels),
              Divisor(shape.columns ? 1 : shape.pixels), window);
        });
      });
}

constexpr KernelEntry kRows[] = {
    {"MeanVarianceNormalization", "cuda", prepare_mean_variance},
    {"LRN", "cuda", prepare_lrn},
};

}  // namespace

std::span<const KernelEntry> local_norm_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
