// What the kernels of reductions do with single numbers and vectors of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/element.h"
#include "kernels/cuda/reduce_plan.h"

namespace mezzo::kernels::cuda {

// Sums and products of integers wrap.
template <typename T>
__device__ inline T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}
template <typename T>
__device__ inline T times(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

template <typename T>
__device__ inline T start_of(const ReducePlan& plan) {
  const bool least = plan.op == ReduceOp::kMin || plan.op == ReduceOp::kMinNumber;
  switch (plan.op) {
    case ReduceOp::kProd: return T{1};
    case ReduceOp::kMax:
    case ReduceOp::kMin:
    case ReduceOp::kMaxNumber:
    case ReduceOp::kMinNumber:
      if constexpr (std::is_integral_v<T>) {
        return plan.extreme;
      } else {
        return least ? static_cast<T>(INFINITY) : -static_cast<T>(INFINITY);
      }
    default: return T{0};
  }
}

template <typename T>
struct JoinParts {
  ReduceOp op;

  __device__ T operator()(T a, T b) const {
    switch (op) {
      case ReduceOp::kProd: return times(a, b);
      case ReduceOp::kMax: return b > a || b != b ? b : a;
      case ReduceOp::kMin: return b < a || b != b ? b : a;
      case ReduceOp::kMaxNumber:
        if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b);
        return b > a ? b : a;
      case ReduceOp::kMinNumber:
        if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b);
        return b < a ? b : a;
      default: return plus(a, b);
    }
  }
};

// Calls, as eight copies of each would take the registers of a kernel.
template <typename T>
__device__ __attribute__((noinline)) T power_of_size(T x, T power) {
  return std::pow(std::fabs(x), power);
}
template <typename T>
__device__ __attribute__((noinline)) T exponential(T x) {
  return std::exp(x);
}

// Joins what elements x[k] add to sums[k].
template <typename T, int N>
__device__ inline void join_entries(const ReducePlan& plan, T (&sums)[N], const T (&x)[N],
                                    const T (&shifts)[N]) {
  const auto each = [&](auto&& joined) {
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k] = joined(sums[k], x[k], shifts[k]);
  };
  const JoinParts<T> join{plan.op};
  switch (plan.op) {
    case ReduceOp::kSum: return each([](T sum, T v, T) { return plus(sum, v); });
    case ReduceOp::kSumSquare: return each([](T sum, T v, T) { return plus(sum, times(v, v)); });
    case ReduceOp::kSumAbs:
      return each([](T sum, T v, T) { return plus(sum, v < T{0} ? times(v, T{-1}) : v); });
    case ReduceOp::kProd: return each([](T product, T v, T) { return times(product, v); });
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      if constexpr (std::is_integral_v<T>) {
        const T flip = plan.flips != 0 ? INT64_MIN : 0;
        return each([=](T best, T v, T) { return join(best, v ^ flip); });
      }
      return each([=](T best, T v, T) { return join(best, v); });
    default: break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    switch (plan.op) {
      case ReduceOp::kMaxNumber: return each([](T best, T v, T) { return std::fmax(best, v); });
      case ReduceOp::kMinNumber: return each([](T best, T v, T) { return std::fmin(best, v); });
      case ReduceOp::kSumExp:
        return each([](T sum, T v, T shift) { return sum + exponential(v - shift); });
      case ReduceOp::kSumPower: {
        const T power = static_cast<T>(plan.power);
        return each([=](T sum, T v, T) { return sum + power_of_size(v, power); });
      }
      default: return;
    }
  }
}

// As many of the vector as are there.
template <typename T>
__device__ inline void join_some(const ReducePlan& plan, T (&sums)[kReduceVector],
                                 const T (&x)[kReduceVector], const T (&shifts)[kReduceVector],
                                 int count) {
  if (count == kReduceVector) return join_entries(plan, sums, x, shifts);
#pragma unroll
  for (int k = 0; k < kReduceVector; ++k) {
    if (k >= count) break;
    T sum[1] = {sums[k]};
    const T value[1] = {x[k]};
    const T shift[1] = {shifts[k]};
    join_entries(plan, sum, value, shift);
    sums[k] = sum[0];
  }
}

// Joins the vectors number first, first + step, .. before `end`, which lie whole and aligned at
// x + place(number), several of them on their way at once.
template <typename U, typename T, typename Place>
__device__ inline void join_vectors(const ReducePlan& plan, const U* x, Int first, Int end,
                                    Int step, const Place& place, T (&sums)[kReduceVector],
                                    const T (&shifts)[kReduceVector]) {
  constexpr int kAhead = sizeof(U) < 4 ? 4 : 2;
  using Packed = Pack<U, kReduceVector>;
  constexpr int kPacks = kReduceVector / Packed::kCount;
  for (Int number = first; number < end; number += kAhead * step) {
    Packed packs[kAhead][kPacks];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (number + a * step >= end) break;
      const auto* from = reinterpret_cast<const Packed*>(x + place(number + a * step));
#pragma unroll
      for (int p = 0; p < kPacks; ++p) packs[a][p] = from[p];
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (number + a * step >= end) break;
      T values[kReduceVector];
#pragma unroll
      for (int k = 0; k < kReduceVector; ++k) {
        values[k] = number_of<T>(packs[a][k / Packed::kCount].elements[k % Packed::kCount]);
      }
      join_entries(plan, sums, values, shifts);
    }
  }
}

// True if it has joined them all; otherwise they are left to loops that ask for the dtype each
// time.
template <typename T, typename Place>
__device__ inline bool join_wide(const ReducePlan& plan, const void* x, Int first, Int end,
                                 Int step, const Place& place, T (&sums)[kReduceVector],
                                 const T (&shifts)[kReduceVector]) {
  if (plan.is_wide == 0) return false;
  const auto join = [&](auto element) {
    using U = decltype(element);
    join_vectors(plan, static_cast<const U*>(x), first, end, step, place, sums, shifts);
    return true;
  };
  if constexpr (std::is_same_v<T, float>) {
    if (plan.x == DType::kFloat32) return join(float{});
    if (plan.x == DType::kFloat16) return join(__half{});
    if (plan.x == DType::kBFloat16) return join(__nv_bfloat16{});
  } else if constexpr (std::is_same_v<T, double>) {
    if (plan.x == DType::kFloat64) return join(double{});
  }
  return false;
}

template <typename T>
__device__ inline T finished(const ReducePlan& plan, T value, T shift) {
  if constexpr (std::is_integral_v<T>) {
    if (plan.end == ReduceEnd::kMean) return plan.count == 0 ? 0 : value / plan.count;
    return plan.flips != 0 ? value ^ INT64_MIN : value;
  } else {
    switch (plan.end) {
      case ReduceEnd::kMean: return value / static_cast<T>(plan.count);
      case ReduceEnd::kRoot: return std::sqrt(value);
      case ReduceEnd::kLog: return std::log(value);
      case ReduceEnd::kPowerRoot: return std::pow(value, static_cast<T>(1.0 / plan.power));
      case ReduceEnd::kLogShift: return std::log(value) + shift;
      default: return value;
    }
  }
}

// Infinities are not taken out: their difference would be NaN.
template <typename T>
__device__ inline T shift_of(const T* shifts, Int result) {
  if constexpr (std::is_floating_point_v<T>) {
    if (shifts != nullptr && std::isfinite(shifts[result])) return shifts[result];
  }
  return T{0};
}

}  // namespace mezzo::kernels::cuda
