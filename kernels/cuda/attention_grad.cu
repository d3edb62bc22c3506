// The gradient of ScaledDotProductAttention: delta, then dq by blocks of queries, then dk and dv by
// blocks of keys, each computing the scores again. Formulas: attention.cu.
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {

// delta[B,H,T] = sum of dy y over a row, a warp each.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    attention_delta(AttentionSizes sizes, FloatsIn dy, FloatsIn y, T* delta, Int rows) {
  const Int warps = Int{gridDim.x} * (kThreads / kWarpThreads);
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  for (Int row = blockIdx.x * Int{kThreads / kWarpThreads} + threadIdx.x / kWarpThreads; row < rows;
       row += warps) {
    const Int head = row / sizes.queries;
    const Int first =
        place_of(sizes.y, head / sizes.heads, head % sizes.heads, row % sizes.queries);
    T sum = T(0);
    for (int i = lane; i < sizes.v_size; i += kWarpThreads)
      sum += load_float<T>(dy, first + i) * load_float<T>(y, first + i);
    sum = warp_sum(sum);
    if (lane == 0) delta[row] = sum;
  }
}

// Operands of the gradient.
template <typename T>
struct GradIn {
  FloatsIn dy, q, k, v, bias, lse;
  const T* delta;
};

// p and ds of a query and a key that it may see, whose products q k and dy v are known; both 0
// where it does not.
template <typename T>
__device__ Pair<T> weights_of(const AttentionSizes& sizes, const GradIn<T>& in, T q_k, T dy_v,
                              Int b, Int head, Int t, Int s, bool exists) {
  if (!exists || s >= sizes.seen(t)) return {T(0), T(0)};
  const Int query = (b * sizes.heads + head) * sizes.queries + t;
  const T lse = load_float<T>(in.lse, query);
  if (lse == kLowest<T>) return {T(0), T(0)};
  const T p = std::exp(score(sizes, in.bias, q_k, b, head, t, s) - lse);
  return {p, p * (dy_v - in.delta[query])};
}

// Unit: kRows queries of a head. Shared: q and dy, then k and v of a tile, ds[kRows][tile].
template <typename T>
__global__ void __launch_bounds__(kThreads)
    attention_grad_queries(AttentionSizes sizes, GradIn<T> in, FloatsOut dq) {
  MEZZO_DYNAMIC_SHARED(T, shared);
  const int tile = sizes.tile, q_step = sizes.size + 1, v_step = sizes.v_size + 1;
  T* own_q = shared;
  T* own_dy = own_q + kRows * q_step;
  T* keys = own_dy + kRows * v_step;
  T* values = keys + tile * q_step;
  T* ds = values + tile * v_step;
  const int row = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const Int blocks = (sizes.queries + kRows - 1) / kRows;
  const Int unit = blockIdx.x;
  const Int place = unit / blocks, first = unit % blocks * kRows;
  const Int b = place / sizes.heads, head = place % sizes.heads;
  const Int count = sizes.queries - first < kRows ? sizes.queries - first : kRows;
  const Int group = sizes.group_of(head);
  const Int end = sizes.seen(first + count - 1);
  T sum[kHeld] = {};
  load_rows(in.q, place_of(sizes.q, b, head, first), sizes.q.row, count, kRows, sizes.size, own_q);
  load_rows(in.dy, place_of(sizes.y, b, head, first), sizes.y.row, count, kRows, sizes.v_size,
            own_dy);
  for (Int at = 0; at < end; at += tile) {
    const Int width = end - at < tile ? end - at : tile;
    if (at > 0) __syncthreads();
    load_rows(in.k, place_of(sizes.k, b, group, at), sizes.k.row, width, tile, sizes.size, keys);
    load_rows(in.v, place_of(sizes.v, b, group, at), sizes.v.row, width, tile, sizes.v_size,
              values);
    __syncthreads();
    for (int some = lane; some < tile; some += kLanes * kAtOnce) {
      T q_k[kAtOnce], dy_v[kAtOnce];
      dots(own_q + row * q_step, keys, some, tile, sizes.size, q_k);
      dots(own_dy + row * v_step, values, some, tile, sizes.v_size, dy_v);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int s = some + j * kLanes;
        if (s >= tile) break;
        ds[row * tile + s] = weights_of(sizes, in, q_k[j], dy_v[j], b, head, first + row, at + s,
                                        row < count && s < width)
                                 .second;
      }
    }
    __syncwarp();  // a row's lanes belong to one warp
    add_weighted(ds + row * tile, keys, static_cast<int>(width), sizes.size, lane, sum);
  }
  if (row < count) {
    store_row(dq, place_of(sizes.q, b, head, first + row), sizes.size, lane,
              static_cast<T>(sizes.scale), sum);
  }
}

// Unit: kRows keys that a group of heads shares. Shared: k and v, then q and dy of a tile, p and ds
// [kRows][tile].
template <typename T>
__global__ void __launch_bounds__(kThreads)
    attention_grad_keys(AttentionSizes sizes, GradIn<T> in, FloatsOut dk, FloatsOut dv) {
  MEZZO_DYNAMIC_SHARED(T, shared);
  const int tile = sizes.tile, q_step = sizes.size + 1, v_step = sizes.v_size + 1;
  T* own_k = shared;
  T* own_v = own_k + kRows * q_step;
  T* queries = own_v + kRows * v_step;
  T* grads = queries + tile * q_step;
  T* p = grads + tile * v_step;
  T* ds = p + kRows * tile;
  const int row = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const Int blocks = (sizes.keys + kRows - 1) / kRows, shares = sizes.heads / sizes.groups;
  const Int unit = blockIdx.x;
  const Int place = unit / blocks, first = unit % blocks * kRows;
  const Int b = place / sizes.groups, group = place % sizes.groups;
  const Int count = sizes.keys - first < kRows ? sizes.keys - first : kRows;
  T k_sum[kHeld] = {}, v_sum[kHeld] = {};
  load_rows(in.k, place_of(sizes.k, b, group, first), sizes.k.row, count, kRows, sizes.size, own_k);
  load_rows(in.v, place_of(sizes.v, b, group, first), sizes.v.row, count, kRows, sizes.v_size,
            own_v);
  bool again = false;
  for (Int head = group * shares; head < (group + 1) * shares; ++head) {
    for (Int at = sizes.first_query(first); at < sizes.queries; at += tile) {
      const Int width = sizes.queries - at < tile ? sizes.queries - at : tile;
      if (again) __syncthreads();
      again = true;
      load_rows(in.q, place_of(sizes.q, b, head, at), sizes.q.row, width, tile, sizes.size,
                queries);
      load_rows(in.dy, place_of(sizes.y, b, head, at), sizes.y.row, width, tile, sizes.v_size,
                grads);
      __syncthreads();
      for (int some = lane; some < tile; some += kLanes * kAtOnce) {
        T q_k[kAtOnce], dy_v[kAtOnce];
        dots(own_k + row * q_step, queries, some, tile, sizes.size, q_k);
        dots(own_v + row * v_step, grads, some, tile, sizes.v_size, dy_v);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int t = some + j * kLanes;
          if (t >= tile) break;
          const Pair<T> weights = weights_of(sizes, in, q_k[j], dy_v[j], b, head, at + t,
                                             first + row, row < count && t < width);
          p[row * tile + t] = weights.first;
          ds[row * tile + t] = weights.second;
        }
      }
      __syncwarp();  // a row's lanes belong to one warp
      add_weighted(p + row * tile, grads, static_cast<int>(width), sizes.v_size, lane, v_sum);
      add_weighted(ds + row * tile, queries, static_cast<int>(width), sizes.size, lane, k_sum);
    }
  }
  if (row >= count) return;
  store_row(dk, place_of(sizes.k, b, group, first + row), sizes.size, lane,
            static_cast<T>(sizes.scale), k_sum);
  store_row(dv, place_of(sizes.v, b, group, first + row), sizes.v_size, lane, T(1), v_sum);
}

namespace {

// What the gradient's kernels are launched with.
struct GradPlan {
  AttentionSizes queries, keys;  // with the tile of either kernel
  Int query_units, key_units, rows;
  std::size_t query_elems, key_elems;
  std::array<FloatsIn, 7> in;
  DType out[3];

  template <typename T>
  Status run(const KernelArguments& arguments) const {
    std::array<FloatsIn, 7> from = in;
    for (std::size_t i = 0; i < from.size(); ++i) from[i].data = operand_data(arguments, i);
    T* delta = static_cast<T*>(arguments.workspace);
    const GradIn<T> operands = {from[attention::kDy],
                                from[attention::kQ],
                                from[attention::kK],
                                from[attention::kV],
                                from[attention::kBias],
                                from[attention::kLse],
                                delta};
    constexpr Int kBlockRows = kThreads / kWarpThreads;
    MEZZO_RETURN_IF_ERROR(launch<attention_delta<T>>(
        blocks_for(std::min<Int>((rows + kBlockRows - 1) / kBlockRows, 1 << 16), 0),
        arguments.stream, queries, from[attention::kDy], from[attention::kY], delta, rows));
    MEZZO_RETURN_IF_ERROR(launch<attention_grad_queries<T>>(
        blocks_for(query_units, query_elems * sizeof(T)), arguments.stream, queries, operands,
        FloatsOut{arguments.outputs[0], out[0]}));
    return launch<attention_grad_keys<T>>(
        blocks_for(key_units, key_elems * sizeof(T)), arguments.stream, keys, operands,
        FloatsOut{arguments.outputs[1], out[1]}, FloatsOut{arguments.outputs[2], out[2]});
  }
};

PreparedKernel prepare_grad(const KernelRequest& request) {
  const AttentionShape shape = attention_shape(request);
  MEZZO_RETURN_IF_ERROR(check_sizes(request, shape));
  const bool is_double = has_double(request);
  const Int both = shape.size + shape.v_size + 2;
  const auto query_elems = [both](int tile) { return (kRows + tile) * both + kRows * tile; };
  const auto key_elems = [both](int tile) { return (kRows + tile) * both + 2 * kRows * tile; };
  GradPlan plan;
  plan.queries = plan.keys = sizes_of(shape);
  plan.queries.tile = largest_tile(is_double, query_elems);
  plan.keys.tile = largest_tile(is_double, key_elems);
  if (plan.keys.tile == 0) return unimplemented("heads too large for shared memory");
  plan.query_elems = static_cast<std::size_t>(query_elems(plan.queries.tile));
  plan.key_elems = static_cast<std::size_t>(key_elems(plan.keys.tile));
  plan.query_units = shape.batch * shape.heads * ((shape.queries + kRows - 1) / kRows);
  plan.key_units = shape.batch * shape.groups * ((shape.keys + kRows - 1) / kRows);
  if (std::max(plan.query_units, plan.key_units) > kMostBlocks)
    return unimplemented("more blocks than a grid has");
  plan.rows = shape.batch * shape.heads * shape.queries;
  for (std::size_t i = 0; i < plan.in.size(); ++i) plan.in[i] = float_in(request, i);
  for (std::size_t i = 0; i < 3; ++i) plan.out[i] = result(request, i).dtype;
  const std::size_t bytes =
      static_cast<std::size_t>(plan.rows) * (is_double ? sizeof(double) : sizeof(float));
  return make_layer(
      kAttentionName,
      [plan, is_double](const KernelArguments& arguments) {
        return with_real(is_double, [&](auto real) { return plan.run<decltype(real)>(arguments); });
      },
      bytes);
}

constexpr KernelEntry kGradRows[] = {{"ScaledDotProductAttentionGrad", "cuda", prepare_grad}};

}  // namespace

std::span<const KernelEntry> attention_grad_rows() { return kGradRows; }

}  // namespace mezzo::kernels::cuda
