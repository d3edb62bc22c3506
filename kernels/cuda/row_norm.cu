// Normalisations of rows of neighbouring elements: LayerNormalization, RMSNormalization,
// GroupNormalization and InstanceNormalization.
//
//   y = scale (x - mean) inv_std + bias,  inv_std = 1 / sqrt(var + epsilon)
//
// x, y[R,D] with R rows of D elements (a row of GroupNormalization is one group of one image), any
// floating dtypes, row-major; scale and bias as the operators say; mean, inv_std[R]. RMS: mean 0,
// bias 0. Statistics in float32 (float64 where an operand is), mean first, then the squared
// distances from it, each by a tree over the threads of a team (row_walk.h).
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"
#include "kernels/cuda/row_walk.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {

// How scale and bias belong to the elements of a row.
enum class FactorsBy : std::uint8_t {
  kPlace,    // one for each element of the row
  kIndex,    // broadcast to the row
  kChannel,  // one for each channel (or group); a row is some channels
};

struct RowNorm {
  double epsilon = 1e-5;
  std::int32_t centres = 1;  // 0: the mean counts as 0
  FactorsBy factors = FactorsBy::kPlace;
  StridedIndex<2> index;   // kIndex: place in the row -> scale, bias
  Divisor groups, pixels;  // kChannel: rows of an image, elements of a channel
  Int channels = 1;        // kChannel: of a row; per group: 0
};

// scale and bias (null: none) of the thread's elements.
template <typename T>
__device__ __forceinline__ void load_factors(const RowNorm& norm, const FloatsIn& scale,
                                             const FloatsIn& bias, Int row, const RowWalk& walk,
                                             int chunk, T (&a)[kHeld], T (&b)[kHeld]) {
  if (norm.factors == FactorsBy::kPlace) {
    load_held(scale, 0, walk, chunk, a, T(0));
    if (bias.data != nullptr) load_held(bias, 0, walk, chunk, b, T(0));
    return;
  }
  Int last = -1;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const Int place = walk.place(chunk, k);
    if (place >= walk.length) break;
    Int at[2];
    if (norm.factors == FactorsBy::kIndex) {
      norm.index.offsets(place, at);
    } else {
      Int group = 0;
      norm.groups.divide(row, group);
      at[0] = norm.channels == 0 ? group : group * norm.channels + norm.pixels.quotient(place);
      at[1] = at[0];
      if (at[0] == last) {
        a[k] = a[k > 0 ? k - 1 : 0];
        b[k] = b[k > 0 ? k - 1 : 0];
        continue;
      }
      last = at[0];
    }
    a[k] = load_float<T>(scale, at[0]);
    if (bias.data != nullptr) b[k] = load_float<T>(bias, at[1]);
  }
}

template <typename T>
__global__ void __launch_bounds__(kMostTeamThreads)
    normalise_rows(RowNorm norm, FloatsIn x, FloatsIn scale, FloatsIn bias, FloatsOut y,
                   FloatsOut mean_out, FloatsOut inv_std_out, Int rows, RowWalk walk) {
  const T count = static_cast<T>(walk.length);
  T v[kHeld], a[kHeld], b[kHeld] = {};
  for (Int row = first_row(); row < rows; row += row_step()) {
    const Int start = row * walk.length;
    T mean = T(0), sum = T(0);
    for (int chunk = 0; chunk < walk.chunks; ++chunk) {
      load_held(x, start, walk, chunk, v, T(0));
#pragma unroll
      for (int k = 0; k < kHeld; ++k) sum += v[k];
    }
    if (norm.centres != 0) mean = team_reduce(sum, Sum(), T(0)) / count;
    sum = T(0);
    for (int chunk = 0; chunk < walk.chunks; ++chunk) {
      if (walk.chunks > 1) load_held(x, start, walk, chunk, v, T(0));
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const T distance = v[k] - mean;
        if (walk.has(walk.place(chunk, k))) sum += distance * distance;
      }
    }
    const T variance = team_reduce(sum, Sum(), T(0)) / count;
    const T inv_std = T(1) / std::sqrt(variance + static_cast<T>(norm.epsilon));
    for (int chunk = 0; chunk < walk.chunks; ++chunk) {
      if (walk.chunks > 1) load_held(x, start, walk, chunk, v, T(0));
      load_factors(norm, scale, bias, row, walk, chunk, a, b);
#pragma unroll
      for (int k = 0; k < kHeld; ++k) v[k] = (v[k] - mean) * inv_std * a[k] + b[k];
      store_held(y, start, walk, chunk, v);
    }
    if (threadIdx.x == 0 && mean_out.data != nullptr) store_float(mean_out, row, mean);
    if (threadIdx.x == 0 && inv_std_out.data != nullptr) store_float(inv_std_out, row, inv_std);
  }
}

namespace {

struct RowNormPlan {
  RowNorm norm;
  Int rows = 0, length = 0;
  std::size_t bias_at = 2;  // operand number, beyond all where there is none
  bool is_double = false;
  DType x = DType::kFloat32, scale = x, bias = x, y = x, mean = x, inv_std = x;

  Status run(const KernelArguments& arguments) const {
    if (rows == 0) return ok_status();
    const LaunchShape shape = row_shape(rows, length);
    const FloatsIn x_in{arguments.inputs[0], x}, scale_in{arguments.inputs[1], scale};
    const FloatsIn bias_in{operand_data(arguments, bias_at), bias};
    const FloatsOut y_out{arguments.outputs[0], y};
    const FloatsOut mean_out{result_data(arguments, 1), mean};
    const FloatsOut inv_std_out{result_data(arguments, 2), inv_std};
    bool aligned = is_aligned_16({x_in.data, y_out.data});
    if (norm.factors == FactorsBy::kPlace) {
      aligned = aligned && is_aligned_16({scale_in.data, bias_in.data});
    }
    return with_real(is_double, [&](auto real) {
      return launch<normalise_rows<decltype(real)>>(shape, arguments.stream, norm, x_in, scale_in,
                                                    bias_in, y_out, mean_out, inv_std_out, rows,
                                                    row_walk(length, shape, aligned));
    });
  }
};

Status expect_row_major(const TensorDesc& x, const TensorDesc& y) {
  if (is_channels_last(x) || is_channels_last(y)) return unimplemented("channels-last operands");
  return ok_status();
}

PreparedKernel finish(const KernelRequest& request, RowNormPlan plan) {
  if (plan.length == 0 && plan.rows > 0) return unimplemented("rows of no elements");
  plan.is_double = has_double(request);
  plan.x = operand(request, 0).dtype;
  plan.scale = operand(request, 1).dtype;
  plan.bias = operand(request, plan.bias_at).dtype;
  plan.y = result(request, 0).dtype;
  plan.mean = result(request, 1).dtype;
  plan.inv_std = result(request, 2).dtype;
  return make_layer("cuda:row-norm",
                    [plan](const KernelArguments& arguments) { return plan.run(arguments); });
}

// LayerNormalization and RMSNormalization.
PreparedKernel prepare_layer_norm(const KernelRequest& request) {
  const TensorDesc& x = operand(request, 0);
  MEZZO_RETURN_IF_ERROR(expect_row_major(x, result(request, 0)));
  const std::size_t axis = axis_of(request, -1, x.dims.size());
  RowNormPlan plan;
  plan.rows = dims_product(x.dims, 0, axis);
  plan.length = dims_product(x.dims, axis, x.dims.size());
  plan.norm.epsilon = request.attributes.get_float("epsilon", 1e-5);
  plan.norm.centres = request.op == "LayerNormalization" ? 1 : 0;
  if (plan.norm.centres == 0) plan.bias_at = request.inputs.size();
  const TensorDesc& scale = operand(request, 1);
  const TensorDesc& bias = operand(request, plan.bias_at);
  if (scale.elems() != plan.length || (bias.present() && bias.elems() != plan.length)) {
    const Dims row(x.dims.begin() + static_cast<std::ptrdiff_t>(axis), x.dims.end());
    plan.norm.factors = FactorsBy::kIndex;
    plan.norm.index = make_index<2>(
        row, {strides_within(scale, row), strides_within(bias.present() ? bias : scale, row)});
  }
  return finish(request, plan);
}

// GroupNormalization and InstanceNormalization.
PreparedKernel prepare_group_norm(const KernelRequest& request) {
  const TensorDesc& x = operand(request, 0);
  MEZZO_RETURN_IF_ERROR(expect_row_major(x, result(request, 0)));
  const Int all = x.dims[1];
  const Int groups =
      request.op == "InstanceNormalization" ? all : request.attributes.get_int("num_groups", 0);
  const Int pixels = dims_product(x.dims, 2, x.dims.size());
  const Int channels = groups == 0 ? 0 : all / groups;
  RowNormPlan plan;
  plan.rows = x.dims[0] * groups;
  plan.length = channels * pixels;
  plan.norm.epsilon = request.attributes.get_float("epsilon", 1e-5);
  plan.norm.factors = FactorsBy::kChannel;
  plan.norm.groups = Divisor(groups);
  plan.norm.pixels = Divisor(pixels);
  const bool per_group = operand(request, 1).dims[0] == groups && groups != all;
  plan.norm.channels = per_group ? 0 : channels;
  return finish(request, plan);
}

constexpr KernelEntry kRows[] = {
    {"LayerNormalization", "cuda", prepare_layer_norm},
    {"RMSNormalization", "cuda", prepare_layer_norm},
    {"GroupNormalization", "cuda", prepare_group_norm},
    {"InstanceNormalization", "cuda", prepare_group_norm},
};

}  // namespace

std::span<const KernelEntry> row_norm_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
