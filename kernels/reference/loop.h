// Loops over strided, broadcast views: the skeleton of every elementwise and data-moving kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/request_check.h"

namespace mezzo::kernels::reference {

using Dims = std::vector<std::int64_t>;

// Distance in elements between neighbours of each logical dim, for the tensor's layout.
Dims element_strides(const TensorDesc& desc);

// The same for a tensor viewed with the dims of a broadcast result: 0 along repeated dims.
// REQUIRES: broadcasts_to(desc.dims, dims).
Dims broadcast_strides(const TensorDesc& desc, const Dims& dims);

// ONNX's unidirectional broadcasting: aligned right, every dim equal or 1.
bool broadcasts_to(const Dims& from, const Dims& to);

// ONNX's multidirectional broadcasting; nothing if the dims do not go together.
std::optional<Dims> broadcast_dims(const Dims& a, const Dims& b);

// An index space, and for each of K views the stride of every dim.
template <std::size_t K>
struct Loop {
  Dims dims;
  std::array<Dims, K> strides;
};

// Calls visit(offsets) with the K element offsets of every index, last dim fastest. `start` is
// added to all offsets of a view. Allocates nothing.
template <std::size_t K, typename Visit>
void for_each(const Loop<K>& loop, std::array<std::int64_t, K> start, Visit&& visit) {
  for (const std::int64_t dim : loop.dims) {
    if (dim == 0) return;
  }
  std::array<std::int64_t, K> offsets = start;
  std::array<std::int64_t, kMaxRank> index{};
  for (;;) {
    visit(offsets);
    std::size_t d = loop.dims.size();
    for (; d > 0; --d) {
      for (std::size_t k = 0; k < K; ++k) offsets[k] += loop.strides[k][d - 1];
      if (++index[d - 1] < loop.dims[d - 1]) break;
      for (std::size_t k = 0; k < K; ++k) {
        offsets[k] -= loop.strides[k][d - 1] * loop.dims[d - 1];
      }
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

template <std::size_t K, typename Visit>
void for_each(const Loop<K>& loop, Visit&& visit) {
  for_each(loop, std::array<std::int64_t, K>{}, visit);
}

// A loop over `dims` in which every operand is broadcast to them.
template <std::size_t K>
Loop<K> broadcast_loop(const Dims& dims, const std::array<const TensorDesc*, K>& operands) {
  Loop<K> loop;
  loop.dims = dims;
  for (std::size_t k = 0; k < K; ++k) loop.strides[k] = broadcast_strides(*operands[k], dims);
  return loop;
}

}  // namespace mezzo::kernels::reference
