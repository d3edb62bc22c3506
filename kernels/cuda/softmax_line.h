// Softmax of a line as an operation over its parts: State of a part, how elements and other parts
// are added, and what becomes of an element.
//
//   m the largest of the line, s = sum exp(x - m): Softmax exp(x - m) / s, Log: (x - m) - log s
//
// Both are taken in one pass (Milakov, Gimelshein: "Online normalizer calculation for softmax",
// 2018). As in the reference, m passes NaN over but s does not.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/cuda/index.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_walk.h"

namespace mezzo::kernels::cuda {

// add: `a` and `b` are elements of the operands (b 0 where there is one), `place` counts along the
// line. add_held: as many as a thread holds, place(k) -1 where there is none (then a is kFill).
template <typename T>
struct SoftmaxLine {
  using State = Pair<T>;  // m and s of the part
  bool logarithm;

  static constexpr T kFill = -std::numeric_limits<T>::infinity();
  __device__ static State nothing() { return {kFill, T(0)}; }
  // -infinity - -infinity is NaN, yet such elements add nothing.
  __device__ static T shift(T largest) { return largest == kFill ? T(0) : largest; }

  __device__ void add(State& state, T a, T, Int) const {
    if (a > state.first) {
      state.second = state.second * std::exp(state.first - a) + std::exp(a - a);
      state.first = a;
    } else {
      state.second += std::exp(a - shift(state.first));
    }
  }
  template <typename Place>
  __device__ void add_held(State& state, const T (&a)[kHeld], const T (&)[kHeld], Place&&) const {
    T largest = state.first;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) largest = FMax()(largest, a[k]);
    const T from = shift(largest);
    state.second *= std::exp(state.first - from);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) state.second += std::exp(a[k] - from);
    state.first = largest;
  }
  __device__ State operator()(const State& left, const State& right) const {
    const T largest = FMax()(left.first, right.first);
    const T from = shift(largest);
    return {largest, left.second * std::exp(left.first - from) +
                         right.second * std::exp(right.first - from)};
  }
  // Once per line: what map() needs.
  __device__ State finish(const State& state) const {
    return {state.first, logarithm ? std::log(state.second) : T(1) / state.second};
  }
  __device__ T map(const State& state, T a, T, Int) const {
    const T shifted = a - state.first;
    return logarithm ? shifted - state.second : std::exp(shifted) * state.second;
  }
};

}  // namespace mezzo::kernels::cuda
