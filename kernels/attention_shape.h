// The sizes of a ScaledDotProductAttention and of its gradient (kernels/README.md), for all who
// compute it.
//
// Letters: B batch, H heads of queries, G of keys and values, T queries, S keys, D size of queries
// and keys, E of values. Query head h reads head h / (H / G) of keys and values.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/kernel.h"

namespace mezzo::kernels {

// Places of the operands of the gradient; of the forward operator they are one less, up to kBias.
namespace attention {
enum GradOperand : std::size_t { kDy, kQ, kK, kV, kBias, kY, kLse };
}

struct AttentionShape {
  std::int64_t batch = 0, heads = 0, groups = 1, queries = 0, keys = 0, size = 0, v_size = 0;
  double scale = 1.0;
  bool causal = false;
  bool has_bias = false;
  // Elements between neighbours of the bias along B, H, T and S; 0 where it is broadcast.
  std::array<std::int64_t, 4> bias_strides{};

  // Keys that query t sees: the first so many.
  std::int64_t seen(std::int64_t t) const {
    return causal ? std::clamp<std::int64_t>(t + keys - queries + 1, 0, keys) : keys;
  }
  std::int64_t group_of(std::int64_t head) const { return head / (heads / groups); }
  std::int64_t bias_offset(std::int64_t b, std::int64_t head, std::int64_t t) const {
    return b * bias_strides[0] + head * bias_strides[1] + t * bias_strides[2];
  }
};

// REQUIRES: the reference kernel has accepted the request, of either operator.
inline AttentionShape attention_shape(const KernelRequest& request) {
  const std::size_t first = request.op.ends_with("Grad") ? 1 : 0;
  const auto& q = request.inputs[first].dims;
  const auto& k = request.inputs[first + 1].dims;
  AttentionShape shape;
  shape.batch = q[0];
  shape.heads = q[1];
  shape.queries = q[2];
  shape.size = q[3];
  shape.groups = std::max<std::int64_t>(k[1], 1);
  shape.keys = k[2];
  shape.v_size = request.inputs[first + 2].dims[3];
  shape.causal = request.attributes.get_int("causal", 0) != 0;
  shape.scale = request.attributes.get_float(
      "scale", 1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(shape.size, 1))));
  if (request.inputs.size() <= first + 3 || !request.inputs[first + 3].present()) return shape;
  const auto& bias = request.inputs[first + 3].dims;
  shape.has_bias = true;
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < bias.size(); ++i) {
    const std::size_t from_end = bias.size() - 1 - i;
    if (bias[from_end] != 1) shape.bias_strides[3 - i] = stride;
    stride *= bias[from_end];
  }
  return shape;
}

}  // namespace mezzo::kernels
