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
#include <utility>

#include "kernels/kernel.h"

namespace mezzo::kernels {

// Places of the operands of the gradient; of the forward operator they are one less, up to kBias.
namespace attention {
enum GradOperand : std::size_t { kDy, kQ, kK, kV, kBias, kY, kLse };
}

// Bits of the attribute tokens_first: these lie with heads behind tokens, [B,T,H,D] for [B,H,T,D].
// Gradients lie as what they are gradients of.
namespace attention {
enum TokensFirst : std::int64_t { kQueriesSo = 1, kKeysSo = 2, kValuesSo = 4, kResultSo = 8 };
}

// Elements between neighbours along the batch, the heads and the tokens of one operand.
struct AttentionSteps {
  std::int64_t batch = 0, head = 0, row = 0;

  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return b * batch + h * head + t * row;
  }
};

struct AttentionShape {
  std::int64_t batch = 0, heads = 0, groups = 1, queries = 0, keys = 0, size = 0, v_size = 0;
  double scale = 1.0;
  bool causal = false;
  bool has_bias = false;
  AttentionSteps q, k, v, y;  // k and v by group
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

// Dims of an operand as [B, heads, tokens, size], whichever way it lies. REQUIRES: rank 4.
inline std::array<std::int64_t, 4> heads_first(const TensorDesc& desc, std::int64_t tokens_first,
                                               std::int64_t bit) {
  std::array<std::int64_t, 4> dims = {desc.dims[0], desc.dims[1], desc.dims[2], desc.dims[3]};
  if ((tokens_first & bit) != 0) std::swap(dims[1], dims[2]);
  return dims;
}

inline AttentionSteps attention_steps(std::int64_t heads, std::int64_t tokens, std::int64_t size,
                                      bool tokens_first) {
  return {heads * tokens * size, tokens_first ? size : tokens * size,
          tokens_first ? heads * size : size};
}

// REQUIRES: the reference kernel has accepted the request, of either operator.
inline AttentionShape attention_shape(const KernelRequest& request) {
  const std::size_t first = request.op.ends_with("Grad") ? 1 : 0;
  const std::int64_t bits = request.attributes.get_int("tokens_first", 0);
  const auto q = heads_first(request.inputs[first], bits, attention::kQueriesSo);
  const auto k = heads_first(request.inputs[first + 1], bits, attention::kKeysSo);
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
  const auto steps = [bits](std::int64_t heads, std::int64_t tokens, std::int64_t size,
                            std::int64_t bit) {
    return attention_steps(heads, tokens, size, (bits & bit) != 0);
  };
  shape.q = steps(shape.heads, shape.queries, shape.size, attention::kQueriesSo);
  shape.k = steps(shape.groups, shape.keys, shape.size, attention::kKeysSo);
  shape.v = steps(shape.groups, shape.keys, shape.v_size, attention::kValuesSo);
  shape.y = steps(shape.heads, shape.queries, shape.v_size, attention::kResultSo);
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
