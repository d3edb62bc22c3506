// BatchNormalization, its gradient, and ConvGradBias, which needs the same sums. Letters: N batch,
// C channels, S the product of the other dims; a channel has n = N S elements.
//
//   y = (x - mean) factor + bias,  factor = scale inv_std,  inv_std = 1 / sqrt(var + epsilon)
//   dbias = sum dy, dscale = inv_std sum dy (x - mean),
//   dx = factor (dy - dbias / n - (x - mean) inv_std dscale / n)
//
// Activations row-major or channels-last, any floating dtypes; sums and arithmetic in float32
// (float64 where an operand is), in the order of channel_sums.h.
#include <cmath>

#include "kernels/cuda/channel_sums.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {

struct NormVectors {
  FloatsIn scale, bias, mean, var;
  FloatsOut running_mean, running_var, saved_mean, saved_inv_std;  // may be absent
  double epsilon = 1e-5, momentum = 0.9;
  double correction = 1.0;  // of the batch's variance in the running one
};

inline constexpr int kForwardNumbers = 3;   // mean, factor, bias
inline constexpr int kBackwardNumbers = 4;  // mean, factor, dbias / n, inv_std dscale / n

// Writes the numbers of channel c: numbers[k, c].
template <typename T>
__device__ void store_forward(const NormVectors& vectors, Int c, T mean, T variance, T* numbers,
                              Int channels) {
  const T inv_std = T(1) / std::sqrt(variance + static_cast<T>(vectors.epsilon));
  numbers[c] = mean;
  numbers[channels + c] = load_float<T>(vectors.scale, c) * inv_std;
  numbers[2 * channels + c] = load_float<T>(vectors.bias, c);
  if (vectors.saved_mean.data != nullptr) store_float(vectors.saved_mean, c, mean);
  if (vectors.saved_inv_std.data != nullptr) store_float(vectors.saved_inv_std, c, inv_std);
}

// With the given statistics.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    prepare_given_norm(NormVectors vectors, T* numbers, Int channels) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int c = Int{blockIdx.x} * blockDim.x + threadIdx.x; c < channels; c += step) {
    store_forward(vectors, c, load_float<T>(vectors.mean, c), load_float<T>(vectors.var, c),
                  numbers, channels);
  }
}

// With the batch's, which become part of the running ones.
template <typename T>
__global__ void __launch_bounds__(kWarpThreads* kJoinTurns)
    prepare_batch_norm(const Moments<T>* parts, Int count, NormVectors vectors, T* numbers,
                       Int channels) {
  const Int c = Int{blockIdx.x} * kWarpThreads + threadIdx.x;
  const Moments<T> batch = join_channel<T, MomentSums>(parts, count, channels, c);
  if (threadIdx.y != 0 || c >= channels) return;
  const T variance = batch.squares / batch.count;
  const T kept = static_cast<T>(vectors.momentum), taken = static_cast<T>(1 - vectors.momentum);
  if (vectors.running_mean.data != nullptr) {
    store_float(vectors.running_mean, c,
                load_float<T>(vectors.mean, c) * kept + batch.mean * taken);
  }
  if (vectors.running_var.data != nullptr) {
    store_float(vectors.running_var, c,
                load_float<T>(vectors.var, c) * kept +
                    variance * static_cast<T>(vectors.correction) * taken);
  }
  store_forward(vectors, c, batch.mean, variance, numbers, channels);
}

// dscale and dbias may be absent.
template <typename T>
__global__ void __launch_bounds__(kWarpThreads* kJoinTurns)
    prepare_norm_grad(const Pair<T>* parts, Int count, FloatsIn scale, FloatsIn mean,
                      FloatsIn inv_std, FloatsOut dscale, FloatsOut dbias, T* numbers, Int channels,
                      Int per_channel) {
  const Int c = Int{blockIdx.x} * kWarpThreads + threadIdx.x;
  const Pair<T> sums = join_channel<T, ProductSums>(parts, count, channels, c);
  if (threadIdx.y != 0 || c >= channels) return;
  const T n = static_cast<T>(per_channel);
  const T r = load_float<T>(inv_std, c);
  const T scale_sum = r * sums.second;
  numbers[c] = load_float<T>(mean, c);
  numbers[channels + c] = load_float<T>(scale, c) * r;
  numbers[2 * channels + c] = sums.first / n;
  numbers[3 * channels + c] = r * scale_sum / n;
  if (dscale.data != nullptr) store_float(dscale, c, scale_sum);
  if (dbias.data != nullptr) store_float(dbias, c, sums.first);
}

template <typename T>
__global__ void __launch_bounds__(kWarpThreads* kJoinTurns)
    store_channel_sums(const Pair<T>* parts, Int count, FloatsOut to, Int channels) {
  const Int c = Int{blockIdx.x} * kWarpThreads + threadIdx.x;
  const Pair<T> sums = join_channel<T, ProductSums>(parts, count, channels, c);
  if (threadIdx.y == 0 && c < channels) store_float(to, c, sums.first);
}

// One element with the numbers of its channel.
template <typename T>
__device__ __forceinline__ T normalised(T x, T, const T (&n)[kForwardNumbers]) {
  return (x - n[0]) * n[1] + n[2];
}
template <typename T>
__device__ __forceinline__ T normalised(T dy, T x, const T (&n)[kBackwardNumbers]) {
  return n[1] * (dy - n[2] - (x - n[0]) * n[3]);
}

// y = normalised(a, b): forward (b absent) or backward, by how many numbers a channel has.
// width neighbours at a time: kChannelPack or 1. pixels: elements until the channel changes.
template <typename T, int kNumbers>
__global__ void __launch_bounds__(kBlockThreads)
    apply_norm(FloatsIn a, FloatsIn b, const T* numbers, FloatsOut y, Int elems, Divisor channels,
               Divisor pixels, int packed) {
  const Int width = packed != 0 ? kChannelPack : 1;
  const Int step = Int{gridDim.x} * blockDim.x * width;
  for (Int i = (Int{blockIdx.x} * blockDim.x + threadIdx.x) * width; i < elems; i += step) {
    Int c = 0;
    channels.divide(pixels.quotient(i), c);
    if (packed == 0) {
      T n[kNumbers];
#pragma unroll
      for (int k = 0; k < kNumbers; ++k) n[k] = numbers[k * channels.value() + c];
      const T other = b.data != nullptr ? load_float<T>(b, i) : T(0);
      store_float(y, i, normalised(load_float<T>(a, i), other, n));
      continue;
    }
    T n[kNumbers][kChannelPack];  // of the elements
#pragma unroll
    for (int k = 0; k < kNumbers; ++k) {
      const T* of_channel = numbers + k * channels.value() + c;
      if (pixels.value() == 1) {
        load_neighbours<kChannelPack>(of_channel, n[k], kChannelPack);
      } else {
#pragma unroll
        for (int e = 0; e < kChannelPack; ++e) n[k][e] = *of_channel;
      }
    }
    T x[kChannelPack], other[kChannelPack] = {}, to[kChannelPack];
    load_packed(a, i, x);
    if (b.data != nullptr) load_packed(b, i, other);
#pragma unroll
    for (int e = 0; e < kChannelPack; ++e) {
      T own[kNumbers];
#pragma unroll
      for (int k = 0; k < kNumbers; ++k) own[k] = n[k][e];
      to[e] = normalised(x[e], other[e], own);
    }
    store_packed(y, i, to);
  }
}

namespace {

template <typename T, int kNumbers>
Status launch_apply(const ChannelShape& shape, const FloatsIn& a, const FloatsIn& b,
                    const T* numbers, const FloatsOut& y, void* stream) {
  const Int pixels = shape.columns ? 1 : shape.pixels;
  const bool whole = (shape.columns ? shape.channels : shape.pixels) % kChannelPack == 0;
  const bool packed = whole && is_aligned_16({a.data, b.data, y.data});
  const Int units = packed ? shape.elems() / kChannelPack : shape.elems();
  return launch<apply_norm<T, kNumbers>>(shape_for(units), stream, a, b, numbers, y, shape.elems(),
                                         Divisor(shape.channels), Divisor(pixels), packed ? 1 : 0);
}

struct BatchNormPlan {
  ChannelSumsPlan sums;
  bool training = false, is_double = false;
  NormVectors vectors;  // dtypes and attributes; buffers are filled in by every run
  DType x = DType::kFloat32, y = x;
  std::size_t parts_at = 0, numbers_at = 0;

  template <typename T>
  Status run(const KernelArguments& arguments) const {
    const ChannelShape& shape = sums.shape;
    auto* numbers = workspace_at<T>(arguments, numbers_at);
    const FloatsIn x_in{arguments.inputs[0], x};
    NormVectors filled = vectors;
    filled.scale.data = arguments.inputs[1];
    filled.bias.data = arguments.inputs[2];
    filled.mean.data = arguments.inputs[3];
    filled.var.data = arguments.inputs[4];
    filled.running_mean.data = result_data(arguments, 1);
    filled.running_var.data = result_data(arguments, 2);
    filled.saved_mean.data = result_data(arguments, 3);
    filled.saved_inv_std.data = result_data(arguments, 4);
    if (training) {
      auto* parts = workspace_at<Moments<T>>(arguments, parts_at);
      MEZZO_RETURN_IF_ERROR(
          (sums.launch_parts<T, MomentSums>(x_in, {}, {}, parts, arguments.stream)));
      MEZZO_RETURN_IF_ERROR(
          (launch<prepare_batch_norm<T>>(sums.join_shape(), arguments.stream, parts, sums.parts,
                                         filled, numbers, shape.channels)));
    } else {
      MEZZO_RETURN_IF_ERROR((launch<prepare_given_norm<T>>(
          shape_for(shape.channels), arguments.stream, filled, numbers, shape.channels)));
    }
    return launch_apply<T, kForwardNumbers>(shape, x_in, {}, numbers,
                                            FloatsOut{arguments.outputs[0], y}, arguments.stream);
  }
};

Status check_channels(const ChannelShape& shape) {
  if (shape.channels >= kNarrowLimit) return unimplemented("2^31 channels or more");
  return ok_status();
}

PreparedKernel prepare_norm(const KernelRequest& request) {
  const TensorDesc& x = operand(request, 0);
  MEZZO_RETURN_IF_ERROR(expect_one_layout({&x, &result(request, 0)}));
  BatchNormPlan plan;
  const ChannelShape shape = channel_shape(x);
  MEZZO_RETURN_IF_ERROR(check_channels(shape));
  plan.training = request.attributes.get_int("training_mode", 0) != 0;
  plan.is_double = has_double(request);
  plan.vectors.epsilon = request.attributes.get_float("epsilon", 1e-5);
  plan.vectors.momentum = request.attributes.get_float("momentum", 0.9);
  const auto count = static_cast<double>(shape.per_channel());
  if (request.attributes.get_int("unbiased_running_var", 0) != 0 && count > 1) {
    plan.vectors.correction = count / (count - 1);
  }
  plan.x = x.dtype;
  plan.y = result(request, 0).dtype;
  plan.vectors.scale.dtype = operand(request, 1).dtype;
  plan.vectors.bias.dtype = operand(request, 2).dtype;
  plan.vectors.mean.dtype = operand(request, 3).dtype;
  plan.vectors.var.dtype = operand(request, 4).dtype;
  plan.vectors.running_mean.dtype = result(request, 1).dtype;
  plan.vectors.running_var.dtype = result(request, 2).dtype;
  plan.vectors.saved_mean.dtype = result(request, 3).dtype;
  plan.vectors.saved_inv_std.dtype = result(request, 4).dtype;
  if (shape.elems() == 0) {
    return make_layer("cuda:batch-norm", [](const KernelArguments&) { return ok_status(); });
  }
  plan.sums = ChannelSumsPlan(shape);
  WorkspacePlan workspace;
  if (plan.training) plan.parts_at = workspace.add(3 * plan.sums.part_elems());
  plan.numbers_at = workspace.add(kForwardNumbers * shape.channels);
  return make_layer(
      "cuda:batch-norm",
      [plan](const KernelArguments& arguments) {
        return with_real(plan.is_double,
                         [&](auto real) { return plan.run<decltype(real)>(arguments); });
      },
      workspace.bytes());
}

struct BatchNormGradPlan {
  ChannelSumsPlan sums;
  bool is_double = false;
  FloatsIn dy, x, scale, mean, inv_std;  // dtypes
  FloatsOut dx, dscale, dbias;
  std::size_t parts_at = 0, numbers_at = 0;

  template <typename T>
  Status run(const KernelArguments& arguments) const {
    const ChannelShape& shape = sums.shape;
    const auto in = [&](std::size_t i, const FloatsIn& floats) {
      return FloatsIn{arguments.inputs[i], floats.dtype};
    };
    const auto out = [&](std::size_t i, const FloatsOut& floats) {
      return FloatsOut{result_data(arguments, i), floats.dtype};
    };
    auto* parts = workspace_at<Pair<T>>(arguments, parts_at);
    auto* numbers = workspace_at<T>(arguments, numbers_at);
    MEZZO_RETURN_IF_ERROR((sums.launch_parts<T, ProductSums>(in(0, dy), in(1, x), in(3, mean),
                                                             parts, arguments.stream)));
    MEZZO_RETURN_IF_ERROR((
        launch<prepare_norm_grad<T>>(sums.join_shape(), arguments.stream, parts, sums.parts,
                                     in(2, scale), in(3, mean), in(4, inv_std), out(1, dscale),
                                     out(2, dbias), numbers, shape.channels, shape.per_channel())));
    if (result_data(arguments, 0) == nullptr) return ok_status();
    return launch_apply<T, kBackwardNumbers>(shape, in(0, dy), in(1, x), numbers, out(0, dx),
                                             arguments.stream);
  }
};

Status zero_results(const KernelArguments& arguments, const std::vector<std::size_t>& bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == 0 || result_data(arguments, i) == nullptr) continue;
    MEZZO_RETURN_IF_ERROR(
        check("cudaMemsetAsync", cudaMemsetAsync(arguments.outputs[i], 0, bytes[i],
                                                 static_cast<cudaStream_t>(arguments.stream))));
  }
  return ok_status();
}

// Sums over no elements.
PreparedKernel prepare_zeros(const KernelRequest& request) {
  std::vector<std::size_t> bytes;
  for (const TensorDesc& desc : request.outputs) bytes.push_back(desc.bytes());
  return make_layer("cuda:memset", [bytes](const KernelArguments& arguments) {
    return zero_results(arguments, bytes);
  });
}

PreparedKernel prepare_grad(const KernelRequest& request) {
  const TensorDesc& x = operand(request, 1);
  MEZZO_RETURN_IF_ERROR(expect_one_layout({&operand(request, 0), &x, &result(request, 0)}));
  const ChannelShape shape = channel_shape(x);
  MEZZO_RETURN_IF_ERROR(check_channels(shape));
  if (shape.elems() == 0) return prepare_zeros(request);
  BatchNormGradPlan plan;
  plan.sums = ChannelSumsPlan(shape);
  plan.is_double = has_double(request);
  plan.dy.dtype = operand(request, 0).dtype;
  plan.x.dtype = x.dtype;
  plan.scale.dtype = operand(request, 2).dtype;
  plan.mean.dtype = operand(request, 3).dtype;
  plan.inv_std.dtype = operand(request, 4).dtype;
  plan.dx.dtype = result(request, 0).dtype;
  plan.dscale.dtype = result(request, 1).dtype;
  plan.dbias.dtype = result(request, 2).dtype;
  WorkspacePlan workspace;
  plan.parts_at = workspace.add(2 * plan.sums.part_elems());
  plan.numbers_at = workspace.add(kBackwardNumbers * shape.channels);
  return make_layer(
      "cuda:batch-norm-grad",
      [plan](const KernelArguments& arguments) {
        return with_real(plan.is_double,
                         [&](auto real) { return plan.run<decltype(real)>(arguments); });
      },
      workspace.bytes());
}

// dy -> db[C]
PreparedKernel prepare_conv_grad_bias(const KernelRequest& request) {
  const TensorDesc& dy = operand(request, 0);
  const ChannelShape shape = channel_shape(dy);
  MEZZO_RETURN_IF_ERROR(check_channels(shape));
  if (shape.elems() == 0) return prepare_zeros(request);
  const ChannelSumsPlan sums(shape);
  WorkspacePlan workspace;
  const std::size_t parts_at = workspace.add(2 * sums.part_elems());
  return make_layer(
      "cuda:channel-sums",
      [sums, parts_at, is_double = has_double(request), dy_dtype = dy.dtype,
       db_dtype = result(request, 0).dtype](const KernelArguments& arguments) {
        return with_real(is_double, [&](auto real) -> Status {
          using T = decltype(real);
          auto* parts = workspace_at<Pair<T>>(arguments, parts_at);
          MEZZO_RETURN_IF_ERROR((sums.launch_parts<T, ProductSums>(
              FloatsIn{arguments.inputs[0], dy_dtype}, {}, {}, parts, arguments.stream)));
          return launch<store_channel_sums<T>>(
              sums.join_shape(), arguments.stream, parts, sums.parts,
              FloatsOut{arguments.outputs[0], db_dtype}, sums.shape.channels);
        });
      },
      workspace.bytes());
}

constexpr KernelEntry kRows[] = {
    {"BatchNormalization", "cuda", prepare_norm},
    {"BatchNormalizationGrad", "cuda", prepare_grad},
    {"ConvGradBias", "cuda", prepare_conv_grad_bias},
};

}  // namespace

std::span<const KernelEntry> batch_norm_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
