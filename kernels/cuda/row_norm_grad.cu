// Gradients of LayerNormalization and RMSNormalization.
//
// With g = dy scale, xhat = (x - mean) inv_std, means over the row:
//   dx = inv_std (g - mean of g - xhat mean of (g xhat)); RMS: x for (x - mean), mean of g 0
//   dscale = sum over rows of dy xhat, dbias = sum over rows of dy
//
// dy, x, dx[R,D]; scale, dscale, dbias[D]; mean, inv_std[R] (RMS: taken from x once more). Any
// floating dtypes, row-major; arithmetic in float32 (float64 where an operand is).
//
// One pass: a team of threads goes through every so manieth row, keeps what its elements add to
// dscale and dbias in registers (rows of several chunks: in the workspace), and leaves the sums as
// one part; sum_parts.h adds up the parts. How many there are follows from the shapes alone.
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"
#include "kernels/cuda/row_walk.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sum_parts.h"

namespace mezzo::kernels::cuda {

inline constexpr int kMostGradThreads = 512;  // of a team: they need many registers

struct RowNormGrad {
  FloatsIn dy, x, scale, mean, inv_std;
  FloatsOut dx;                       // may be absent
  FloatsOut scale_parts, bias_parts;  // [teams, D] of T; may be absent
  double epsilon = 1e-5;
  std::int32_t centres = 1;  // 0: RMSNormalization
};

// A chunk of a row: dy and xhat.
template <typename T>
struct HeldGrad {
  T dy[kHeld], xhat[kHeld];

  __device__ __forceinline__ void load(const RowNormGrad& grad, Int start, const RowWalk& walk,
                                       int chunk, T mean, T inv_std) {
    load_held(grad.dy, start, walk, chunk, dy, T(0));
    load_held(grad.x, start, walk, chunk, xhat, mean);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) xhat[k] = (xhat[k] - mean) * inv_std;
  }
};

// Adds `values` to the team's part, which exists from its second row on.
template <typename T>
__device__ __forceinline__ void add_to_part(const FloatsOut& parts, Int start, const RowWalk& walk,
                                            int chunk, bool exists, T (&values)[kHeld]) {
  if (exists) {
    T before[kHeld];
    load_held(FloatsIn{parts.data, parts.dtype}, start, walk, chunk, before, T(0));
#pragma unroll
    for (int k = 0; k < kHeld; ++k) values[k] += before[k];
  }
  store_held(parts, start, walk, chunk, values);
}

template <typename T>
__global__ void __launch_bounds__(kMostGradThreads)
    grad_of_rows(RowNormGrad grad, Int rows, RowWalk walk) {
  const T count = static_cast<T>(walk.length);
  const Int part = first_row() * walk.length;
  HeldGrad<T> held;
  T scale[kHeld], scale_sum[kHeld] = {}, bias_sum[kHeld] = {};
  if (walk.chunks == 1) load_held(grad.scale, 0, walk, 0, scale, T(0));
  for (Int row = first_row(); row < rows; row += row_step()) {
    const Int start = row * walk.length;
    T mean = T(0), inv_std = T(0);
    if (grad.centres != 0) {
      mean = load_float<T>(grad.mean, row);
      inv_std = load_float<T>(grad.inv_std, row);
    } else {
      T squares = T(0);
      for (int chunk = 0; chunk < walk.chunks; ++chunk) {
        load_held(grad.x, start, walk, chunk, held.xhat, T(0));
#pragma unroll
        for (int k = 0; k < kHeld; ++k) squares += held.xhat[k] * held.xhat[k];
      }
      squares = team_reduce(squares, Sum(), T(0));
      inv_std = T(1) / std::sqrt(squares / count + static_cast<T>(grad.epsilon));
    }
    Pair<T> sums{T(0), T(0)};  // of g, of g xhat
    for (int chunk = 0; chunk < walk.chunks; ++chunk) {
      held.load(grad, start, walk, chunk, mean, inv_std);
      if (walk.chunks > 1) load_held(grad.scale, 0, walk, chunk, scale, T(0));
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const T g = held.dy[k] * scale[k];
        sums.first += g;
        sums.second += g * held.xhat[k];
      }
      if (walk.chunks == 1) {
#pragma unroll
        for (int k = 0; k < kHeld; ++k) {
          scale_sum[k] += held.dy[k] * held.xhat[k];
          bias_sum[k] += held.dy[k];
        }
        continue;
      }
      const bool exists = row != first_row();
#pragma unroll
      for (int k = 0; k < kHeld; ++k) scale_sum[k] = held.dy[k] * held.xhat[k];
      if (grad.scale_parts.data != nullptr) {
        add_to_part(grad.scale_parts, part, walk, chunk, exists, scale_sum);
      }
      if (grad.bias_parts.data != nullptr) {
#pragma unroll
        for (int k = 0; k < kHeld; ++k) bias_sum[k] = held.dy[k];
        add_to_part(grad.bias_parts, part, walk, chunk, exists, bias_sum);
      }
    }
    if (grad.dx.data == nullptr) continue;
    sums = team_reduce(sums, PairSum(), Pair<T>{T(0), T(0)});
    const T g_mean = grad.centres != 0 ? sums.first / count : T(0);
    const T product_mean = sums.second / count;
    for (int chunk = 0; chunk < walk.chunks; ++chunk) {
      if (walk.chunks > 1) {
        held.load(grad, start, walk, chunk, mean, inv_std);
        load_held(grad.scale, 0, walk, chunk, scale, T(0));
      }
      T dx[kHeld];
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        dx[k] = inv_std * (held.dy[k] * scale[k] - g_mean - held.xhat[k] * product_mean);
      }
      store_held(grad.dx, start, walk, chunk, dx);
    }
  }
  if (walk.chunks > 1 && first_row() < rows) return;
  for (int chunk = 0; chunk < walk.chunks; ++chunk) {  // of several: a team without rows
    if (grad.scale_parts.data != nullptr) {
      store_held(grad.scale_parts, part, walk, chunk, scale_sum);
    }
    if (grad.bias_parts.data != nullptr) {
      store_held(grad.bias_parts, part, walk, chunk, bias_sum);
    }
  }
}

namespace {

struct GradPlan {
  RowNormGrad grad;  // dtypes and attributes; buffers are filled in by every run
  Int rows = 0, length = 0;
  bool is_double = false;
  DType dscale = DType::kFloat32, dbias = DType::kFloat32;
  LaunchShape shape;
  std::size_t scale_parts_at = 0, bias_parts_at = 0, workspace_bytes = 0;

  Int teams() const { return Int{shape.grid.x} * shape.block.y; }

  template <typename T>
  Status run(const KernelArguments& arguments) const {
    const FloatsOut dscale_out{result_data(arguments, 1), dscale};
    const FloatsOut dbias_out{result_data(arguments, 2), dbias};
    auto* scale_parts = workspace_at<T>(arguments, scale_parts_at);
    auto* bias_parts = workspace_at<T>(arguments, bias_parts_at);
    RowNormGrad filled = grad;
    filled.dy.data = arguments.inputs[0];
    filled.x.data = arguments.inputs[1];
    filled.scale.data = arguments.inputs[2];
    filled.mean.data = operand_data(arguments, 3);
    filled.inv_std.data = operand_data(arguments, 4);
    filled.dx.data = result_data(arguments, 0);
    if (dscale_out.data != nullptr) filled.scale_parts = {scale_parts, kRealDType<T>};
    if (dbias_out.data != nullptr) filled.bias_parts = {bias_parts, kRealDType<T>};
    const bool aligned =
        is_aligned_16({filled.dy.data, filled.x.data, filled.scale.data, filled.dx.data});
    MEZZO_RETURN_IF_ERROR((launch<grad_of_rows<T>>(shape, arguments.stream, filled, rows,
                                                   row_walk(length, shape, aligned))));
    if (dscale_out.data != nullptr) {
      MEZZO_RETURN_IF_ERROR(
          launch_sum_parts<T>(scale_parts, teams(), length, dscale_out, arguments.stream));
    }
    if (dbias_out.data == nullptr) return ok_status();
    return launch_sum_parts<T>(bias_parts, teams(), length, dbias_out, arguments.stream);
  }
};

// The rows of few elements are there for nothing else.
Status zero(void* data, std::size_t bytes, void* stream) {
  if (data == nullptr || bytes == 0) return ok_status();
  return check("cudaMemsetAsync",
               cudaMemsetAsync(data, 0, bytes, static_cast<cudaStream_t>(stream)));
}

PreparedKernel prepare_row_norm_grad(const KernelRequest& request) {
  constexpr Int kRowsOfTeam = 8;  // or more
  constexpr Int kMostTeams = 1024;
  const TensorDesc& x = operand(request, 1);
  if (is_channels_last(operand(request, 0)) || is_channels_last(x) ||
      is_channels_last(result(request, 0))) {
    return unimplemented("channels-last operands");
  }
  const std::size_t axis = axis_of(request, -1, x.dims.size());
  GradPlan plan;
  plan.rows = dims_product(x.dims, 0, axis);
  plan.length = dims_product(x.dims, axis, x.dims.size());
  plan.is_double = has_double(request);
  plan.grad.dy.dtype = operand(request, 0).dtype;
  plan.grad.x.dtype = x.dtype;
  plan.grad.scale.dtype = operand(request, 2).dtype;
  plan.grad.mean.dtype = operand(request, 3).dtype;
  plan.grad.inv_std.dtype = operand(request, 4).dtype;
  plan.grad.dx.dtype = result(request, 0).dtype;
  plan.grad.epsilon = request.attributes.get_float("epsilon", 1e-5);
  plan.grad.centres = request.op == "LayerNormalizationGrad" ? 1 : 0;
  plan.dscale = result(request, 1).dtype;
  plan.dbias = result(request, 2).dtype;
  if (plan.rows == 0 || plan.length == 0) {
    return make_layer("cuda:row-norm-grad", [dscale_bytes = result(request, 1).bytes(),
                                             dbias_bytes = result(request, 2).bytes()](
                                                const KernelArguments& arguments) {
      MEZZO_RETURN_IF_ERROR(zero(result_data(arguments, 1), dscale_bytes, arguments.stream));
      return zero(result_data(arguments, 2), dbias_bytes, arguments.stream);
    });
  }
  const Int teams = std::clamp<Int>(plan.rows / kRowsOfTeam, 1, kMostTeams);
  plan.shape = row_shape(plan.rows, plan.length, teams, kMostGradThreads);
  WorkspacePlan workspace;
  if (result(request, 1).present()) plan.scale_parts_at = workspace.add(plan.teams() * plan.length);
  if (result(request, 2).present()) plan.bias_parts_at = workspace.add(plan.teams() * plan.length);
  return make_layer(
      "cuda:row-norm-grad",
      [plan](const KernelArguments& arguments) {
        return with_real(plan.is_double,
                         [&](auto real) { return plan.run<decltype(real)>(arguments); });
      },
      workspace.bytes());
}

constexpr KernelEntry kRows[] = {
    {"LayerNormalizationGrad", "cuda", prepare_row_norm_grad},
    {"RMSNormalizationGrad", "cuda", prepare_row_norm_grad},
};

}  // namespace

std::span<const KernelEntry> row_norm_grad_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
