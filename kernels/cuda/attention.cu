// ScaledDotProductAttention and its gradient (attention_grad.cu) for what the library's rows do not
// take: any floating dtypes, each on its own, any sizes of heads up to 256. Letters:
// kernels/attention_shape.h.
//
//   s = scale q k^T + bias     p = exp(s - lse)     y = p v       delta = sum over E of dy y
//   ds = p (dy v^T - delta)    dq = scale ds k      dk = scale ds^T q      dv = p^T dy
//
// A block holds kRows queries (keys, for dk and dv) and goes through tiles of the others in shared
// memory: scores are never in global memory. Forward keeps the running maximum and sum of each
// query (Milakov and Gimelshein, "Online normalizer calculation for softmax"). Numbers are float32,
// float64 where an operand is; the order of sums follows from the sizes alone, and no two blocks
// add to one place.
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {

// Unit: kRows queries of a head. Shared: q, k and v, p[kRows][tile], maximum, sum and factor of
// rows.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    attention_forward(AttentionSizes sizes, FloatsIn q, FloatsIn k, FloatsIn v, FloatsIn bias,
                      FloatsOut y, FloatsOut lse) {
  MEZZO_DYNAMIC_SHARED(T, shared);
  const int tile = sizes.tile;
  T* own = shared;
  T* keys = own + kRows * (sizes.size + 1);
  T* values = keys + tile * (sizes.size + 1);
  T* p = values + tile * (sizes.v_size + 1);
  T* greatest = p + kRows * tile;
  T* total = greatest + kRows;
  T* factor = total + kRows;
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
  load_rows(q, place_of(sizes.q, b, head, first), sizes.q.row, count, kRows, sizes.size, own);
  if (threadIdx.x < kRows) {
    greatest[threadIdx.x] = kLowest<T>;
    total[threadIdx.x] = T(0);
  }
  for (Int at = 0; at < end; at += tile) {
    const Int width = end - at < tile ? end - at : tile;
    if (at > 0) __syncthreads();
    load_rows(k, place_of(sizes.k, b, group, at), sizes.k.row, width, tile, sizes.size, keys);
    load_rows(v, place_of(sizes.v, b, group, at), sizes.v.row, width, tile, sizes.v_size, values);
    __syncthreads();
    for (int some = lane; some < tile; some += kLanes * kAtOnce) {
      T products[kAtOnce];
      dots(own + row * (sizes.size + 1), keys, some, tile, sizes.size, products);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int s = some + j * kLanes;
        if (s >= tile) break;
        const bool seen = row < count && at + s < sizes.seen(first + row);
        p[row * tile + s] =
            seen ? score(sizes, bias, products[j], b, head, first + row, at + s) : kLowest<T>;
      }
    }
    __syncthreads();
    if (threadIdx.x < kRows) {
      const T* scores = p + threadIdx.x * tile;
      const T before = greatest[threadIdx.x];
      T most = before;
      for (int s = 0; s < tile; ++s) most = scores[s] > most ? scores[s] : most;
      greatest[threadIdx.x] = most;
      factor[threadIdx.x] = before == kLowest<T> ? T(0) : std::exp(before - most);
    }
    __syncthreads();
    const T most = greatest[row];
    for (int s = lane; s < tile; s += kLanes) {
      const T value = p[row * tile + s];
      p[row * tile + s] = value == kLowest<T> ? T(0) : std::exp(value - most);
    }
    __syncthreads();
    if (lane == 0) {
      T part = T(0);
      for (int s = 0; s < tile; ++s) part += p[row * tile + s];
      total[row] = total[row] * factor[row] + part;
    }
#pragma unroll
    for (int i = 0; i < kHeld; ++i) sum[i] *= factor[row];
    add_weighted(p + row * tile, values, static_cast<int>(width), sizes.v_size, lane, sum);
  }
  __syncthreads();
  if (row >= count) return;
  const T whole = total[row];
  const Int query = place * sizes.queries + first + row;
  store_row(y, place_of(sizes.y, b, head, first + row), sizes.v_size, lane,
            whole == T(0) ? T(0) : T(1) / whole, sum);
  if (lse.data != nullptr && lane == 0)
    store_float(lse, query, whole == T(0) ? kLowest<T> : greatest[row] + std::log(whole));
}

namespace {

PreparedKernel prepare_forward(const KernelRequest& request) {
  const AttentionShape shape = attention_shape(request);
  MEZZO_RETURN_IF_ERROR(check_sizes(request, shape));
  AttentionSizes sizes = sizes_of(shape);
  const bool is_double = has_double(request);
  const auto elems = [sizes](int tile) {
    return (kRows + tile) * (sizes.size + 1) + tile * (sizes.v_size + 1) + kRows * (tile + 3);
  };
  sizes.tile = largest_tile(is_double, elems);
  if (sizes.tile == 0) return unimplemented("heads too large for shared memory");
  const Int units = shape.batch * shape.heads * ((shape.queries + kRows - 1) / kRows);
  if (units > kMostBlocks) return unimplemented("more blocks than a grid has");
  std::array<FloatsIn, 4> in;
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = float_in(request, i);
  return make_layer(
      kAttentionName, [=, elems = elems(sizes.tile), y = result(request, 0).dtype,
                       lse = result(request, 1).dtype](const KernelArguments& arguments) {
        std::array<FloatsIn, 4> from = in;
        for (std::size_t i = 0; i < from.size(); ++i) from[i].data = operand_data(arguments, i);
        return with_real(is_double, [&](auto real) {
          using T = decltype(real);
          const auto blocks = blocks_for(units, static_cast<std::size_t>(elems) * sizeof(T));
          return launch<attention_forward<T>>(blocks, arguments.stream, sizes, from[0], from[1],
                                              from[2], from[3], FloatsOut{arguments.outputs[0], y},
                                              FloatsOut{result_data(arguments, 1), lse});
        });
      });
}

constexpr KernelEntry kForwardRows[] = {{"ScaledDotProductAttention", "cuda", prepare_forward}};

}  // namespace

std::span<const KernelEntry> attention_rows() { return kForwardRows; }

}  // namespace mezzo::kernels::cuda
