// From an operation on vectors to a loop over runs. An operation is a struct made from the
// parameters with F operator()(F...) of as many operands as it has.
#pragma once

#include "kernels/cpu/loops.h"
#include "kernels/cpu/vec_math.h"

namespace mezzo::kernels::MEZZO_ISA {

// For operations without parameters.
struct Plain {
  explicit Plain(const float*) {}
};
struct WithAlpha {
  explicit WithAlpha(const float* parameters) : alpha(set1(parameters[0])) {}
  F alpha;
};
struct WithAlphaBeta {
  explicit WithAlphaBeta(const float* parameters)
      : alpha(set1(parameters[0])), beta(set1(parameters[1])) {}
  F alpha;
  F beta;
};

template <class Op>
void loop1(const float* const* x, float* y, Int n, const float* parameters) {
  const Op op(parameters);
  const float* a = x[0];
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, op(load(a + i)));
  const int rest = static_cast<int>(n - i);
  if (rest > 0) store_n(y + i, op(load_n(a + i, rest)), rest);
}

template <class Op>
void loop2(const float* const* x, float* y, Int n, const float* parameters) {
  const Op op(parameters);
  const float* a = x[0];
  const float* b = x[1];
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, op(load(a + i), load(b + i)));
  const int rest = static_cast<int>(n - i);
  if (rest > 0) store_n(y + i, op(load_n(a + i, rest), load_n(b + i, rest)), rest);
}

template <class Op>
void loop3(const float* const* x, float* y, Int n, const float* parameters) {
  const Op op(parameters);
  const float* a = x[0];
  const float* b = x[1];
  const float* c = x[2];
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, op(load(a + i), load(b + i), load(c + i)));
  const int rest = static_cast<int>(n - i);
  if (rest > 0) {
    store_n(y + i, op(load_n(a + i, rest), load_n(b + i, rest), load_n(c + i, rest)), rest);
  }
}

template <class Op>
void loop4(const float* const* x, float* y, Int n, const float* parameters) {
  const Op op(parameters);
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(y + i, op(load(x[0] + i), load(x[1] + i), load(x[2] + i), load(x[3] + i)));
  }
  const int rest = static_cast<int>(n - i);
  if (rest > 0) {
    store_n(y + i,
            op(load_n(x[0] + i, rest), load_n(x[1] + i, rest), load_n(x[2] + i, rest),
               load_n(x[3] + i, rest)),
            rest);
  }
}

// Constants of the GELU family.
constexpr float kInvSqrt2Pi = 0.398942280F;  // density of the normal distribution at 0
constexpr float kTwoInvSqrtPi = 1.12837917F;
constexpr float kGeluTanhInner = 0.797884561F;  // sqrt(2 / pi)
constexpr float kGeluTanhCubic = 0.044715F;

}  // namespace mezzo::kernels::MEZZO_ISA
