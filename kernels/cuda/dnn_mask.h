// What keeps attention to kernels/README.md where a bias hides keys: the library's softmax of a
// query whose scores are all -infinity is NaN.
//
// Hidden scores become kHidden, which no exponential survives beside a seen one; queries that see
// nothing are found from the bias and get their results afterwards. Letters:
// kernels/attention_shape.h.
#pragma once

#include <cstdint>

#include "compiler/support/dtype.h"
#include "compiler/support/status.h"
#include "kernels/attention_shape.h"

namespace mezzo::kernels::cuda::dnn {

inline constexpr float kHidden = -1e30F;

// R rows of S scores' biases, as they lie; a query's row is b steps[0] + h steps[1] + t steps[2].
struct BiasRows {
  std::int64_t rows = 1, keys = 0;
  std::int64_t steps[3] = {0, 0, 0};
  DType dtype = DType::kNone;
};

// clean[R, S] = max(bias, kHidden) in float32; first_seen[R]: the first key that is not hidden
// wholly, S if all are. Not wanted where null.
Status clean_bias(const BiasRows& how, const void* bias, float* clean, std::int64_t* first_seen,
                  void* stream);

struct Queries {
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0, v_size = 0;
  bool causal = false;
  DType dtype = DType::kNone;  // of y
  AttentionSteps y;            // how it lies
};

// y[B, H, T, E] = 0 and lse[B, H, T] = -infinity for queries that see nothing.
Status blank_blind_queries(const BiasRows& rows, const Queries& how, const std::int64_t* first_seen,
                           void* y, float* lse, void* stream);

// to[i] = lse[i], so great where it is -infinity that exp(score - to) is 0.
Status raise_lse(std::int64_t count, const float* lse, float* to, void* stream);

}  // namespace mezzo::kernels::cuda::dnn
