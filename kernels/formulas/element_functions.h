// The functions that elementwise.h makes operators of, for float and double (T) and for integers of
// 64 bits (I).
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/formulas/host_device.h"

// Functions whose code is long are called, not copied into each of their many uses on a GPU.
#ifdef __CUDACC__
#define MEZZO_CALLED __noinline__
#else
#define MEZZO_CALLED inline
#endif

namespace mezzo::kernels {

namespace formulas {

// The C library's functions: in float where they are short, called where they are long.
#define MEZZO_LIBRARY_FUNCTION(name)           \
  template <typename T>                        \
  MEZZO_HD MEZZO_CALLED T called_##name(T x) { \
    return std::name(x);                       \
  }
MEZZO_LIBRARY_FUNCTION(exp)
MEZZO_LIBRARY_FUNCTION(expm1)
MEZZO_LIBRARY_FUNCTION(log)
MEZZO_LIBRARY_FUNCTION(tanh)
MEZZO_LIBRARY_FUNCTION(erf)
MEZZO_LIBRARY_FUNCTION(erfc)
MEZZO_LIBRARY_FUNCTION(log1p)
MEZZO_LIBRARY_FUNCTION(sin)
MEZZO_LIBRARY_FUNCTION(cos)
MEZZO_LIBRARY_FUNCTION(tan)
MEZZO_LIBRARY_FUNCTION(asin)
MEZZO_LIBRARY_FUNCTION(acos)
MEZZO_LIBRARY_FUNCTION(atan)
MEZZO_LIBRARY_FUNCTION(sinh)
MEZZO_LIBRARY_FUNCTION(cosh)
MEZZO_LIBRARY_FUNCTION(asinh)
MEZZO_LIBRARY_FUNCTION(acosh)
MEZZO_LIBRARY_FUNCTION(atanh)
#undef MEZZO_LIBRARY_FUNCTION

template <typename T>
MEZZO_HD inline T exp(T x) {
  if constexpr (std::is_same_v<T, float>) return std::exp(x);
  return called_exp(x);
}

template <typename T>
MEZZO_HD inline bool is_nan(T x) {
  return x != x;
}
template <typename T>
MEZZO_HD inline T truth(bool holds) {
  return holds ? T(1) : T(0);
}
template <typename T>
MEZZO_HD inline T relu(T x) {
  return x < T(0) ? T(0) : x;
}

// exp of a negative number alone: no overflow, and small results keep their digits.
template <typename T>
MEZZO_HD inline T sigmoid(T x) {
  const T e = formulas::exp(-std::fabs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}

template <typename T>
MEZZO_HD inline T softplus(T x) {
  if (is_nan(x)) return x;
  return relu(x) + called_log1p(formulas::exp(-std::fabs(x)));
}

// erfc keeps digits where 1 + erf cancels.
template <typename T>
MEZZO_HD inline T gelu(T x) {
  return T(0.5) * x * called_erfc(-x * T(0.70710678118654752440));
}
// sqrt(2 / pi) (x + 0.044715 x^3)
template <typename T>
MEZZO_HD inline T gelu_inner(T x) {
  return T(0.79788456080286535588) * x * (T(1) + T(0.044715) * x * x);
}
// 0.5 (1 + tanh u) = sigmoid(2 u), which does not cancel.
template <typename T>
MEZZO_HD inline T gelu_tanh(T x) {
  return x * sigmoid(T(2) * gelu_inner(x));
}
template <typename T>
MEZZO_HD inline T gelu_grad(T dy, T x) {
  const T integral = T(0.5) * called_erfc(-x * T(0.70710678118654752440));
  return dy * (integral + x * T(0.39894228040143267794) * formulas::exp(T(-0.5) * x * x));
}
// y = x s, s = sigmoid(2 u): y' = s + 2 x s (1 - s) u'.
template <typename T>
MEZZO_HD inline T gelu_tanh_grad(T dy, T x) {
  const T u = T(2) * gelu_inner(x);
  const T slope = T(2 * 0.79788456080286535588) * (T(1) + T(3 * 0.044715) * x * x);
  const T s = sigmoid(u);
  return dy * (s + x * s * sigmoid(-u) * slope);
}
template <typename T>
MEZZO_HD inline T swish_grad(T dy, T x, T alpha) {
  const T s = sigmoid(alpha * x);
  return dy * (s + alpha * x * s * sigmoid(-alpha * x));
}

// x limited to 0 .. 1.
template <typename T>
MEZZO_HD inline T unit(T x) {
  return x < T(0) ? T(0) : x > T(1) ? T(1) : x;
}
template <typename T>
MEZZO_HD inline T hard_swish_grad(T dy, T x) {
  if (x <= T(-3)) return T(0);
  return x >= T(3) ? dy : dy * (x / T(3) + T(0.5));
}
template <typename T>
MEZZO_HD inline T hard_sigmoid_grad(T dy, T x, T alpha, T beta) {
  const T line = alpha * x + beta;
  return line > T(0) && line < T(1) ? dy * alpha : T(0);
}
template <typename T>
MEZZO_HD inline T sign(T x) {
  return is_nan(x) ? x : T((x > T(0)) - (x < T(0)));
}
// +-1 at the infinities, where x / (1 + |x|) is NaN.
template <typename T>
MEZZO_HD inline T softsign(T x) {
  return std::isinf(x) ? std::copysign(T(1), x) : x / (T(1) + std::fabs(x));
}
template <typename T>
MEZZO_HD inline T shrink(T x, T limit, T bias) {
  return x < -limit ? x + bias : x > limit ? x - bias : is_nan(x) ? x : T(0);
}

// The usual exponents take a few exact operations.
template <typename T>
MEZZO_HD MEZZO_CALLED T power(T x, T exponent) {
  if (exponent == T(2)) return x * x;
  if (exponent == T(1)) return x;
  if (exponent == T(0.5) && x > T(0)) return std::sqrt(x);
  return std::pow(x, exponent);
}
// 0 where the exponent is 0, also at x = 0, where the formula would give 0 times infinity.
template <typename T>
MEZZO_HD inline T power_grad(T dy, T x, T exponent) {
  return dy * (exponent == T(0) ? T(0) : exponent * power(x, exponent - T(1)));
}

// A NaN in either operand is the result.
template <typename T>
MEZZO_HD inline T maximum(T a, T b) {
  return is_nan(a) || a > b ? a : b;
}
template <typename T>
MEZZO_HD inline T minimum(T a, T b) {
  return is_nan(a) || a < b ? a : b;
}

template <typename T>
MEZZO_HD MEZZO_CALLED T c_mod(T a, T b) {
  return std::fmod(a, b);
}
template <typename T>
MEZZO_HD inline T floor_mod(T a, T b) {  // as in Python
  const T remainder = c_mod(a, b);
  if (remainder == T(0)) return std::copysign(T(0), b);
  return (remainder < T(0)) != (b < T(0)) ? remainder + b : remainder;
}

// Integers of 64 bits; what is beyond wraps. I: std::int64_t or std::uint64_t.
template <typename I>
MEZZO_HD inline I wrapping_multiply(I a, I b) {
  return static_cast<I>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <typename I>
MEZZO_HD inline I wrapping_negate(I a) {
  return static_cast<I>(0 - static_cast<std::uint64_t>(a));
}
template <typename I>
MEZZO_HD inline I wrapping_add(I a, I b) {
  return static_cast<I>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <typename I>
MEZZO_HD inline bool is_negative(I a) {
  if constexpr (std::is_signed_v<I>) return a < 0;
  return false;
}
template <typename I>
MEZZO_HD inline I integer_relu(I a) {
  return is_negative(a) ? I(0) : a;
}
template <typename I>
MEZZO_HD inline I integer_abs(I a) {
  return is_negative(a) ? wrapping_negate(a) : a;
}
template <typename I>
MEZZO_HD inline I integer_sign(I a) {
  return is_negative(a) ? I(-1) : I(a != 0);
}
template <typename I>
MEZZO_HD inline I integer_prelu(I a, I slope) {
  return is_negative(a) ? wrapping_multiply(slope, a) : a;
}
// REQUIRES: limit is no less than 0, or the least or greatest integer.
template <typename I>
MEZZO_HD inline I integer_shrink(I x, I limit, I bias) {
  if constexpr (std::is_signed_v<I>) {
    if (x < wrapping_negate(limit)) return wrapping_add(x, bias);
  }
  return x > limit ? wrapping_add(x, wrapping_negate(bias)) : I(0);
}
// REQUIRES: b != 0. The least integer divided by -1 is itself and leaves no remainder.
template <typename I>
MEZZO_HD inline I integer_quotient(I a, I b) {
  if constexpr (std::is_signed_v<I>) {
    if (b == -1) return wrapping_negate(a);
  }
  return a / b;
}
template <typename I>
MEZZO_HD inline I integer_remainder(I a, I b) {
  if constexpr (std::is_signed_v<I>) {
    if (b == -1) return 0;
  }
  return a % b;
}
template <typename I>
MEZZO_HD inline I integer_floor_mod(I a, I b) {
  const I remainder = integer_remainder(a, b);
  if constexpr (std::is_signed_v<I>) {
    if (remainder != 0 && (remainder < 0) != (b < 0)) return remainder + b;
  }
  return remainder;
}
// Exponents below 0: 1 / base^n, truncated. `is_large`: a base of -1 is the greatest uint64.
template <typename I>
MEZZO_HD inline I integer_power(I base, I exponent, bool is_large) {
  if constexpr (std::is_signed_v<I>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base != -1 || is_large) return 0;
      return exponent % 2 == 0 ? 1 : -1;
    }
  }
  I result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result = wrapping_multiply(result, base);
    base = wrapping_multiply(base, base);
  }
  return result;
}
// `places` below 0 or of all `bits`: what filling with the sign leaves.
template <typename I>
MEZZO_HD inline I shift_left(I x, I places, int bits) {
  const auto count = static_cast<std::uint64_t>(places);
  if (count >= static_cast<std::uint64_t>(bits)) return 0;
  return static_cast<I>(static_cast<std::uint64_t>(x) << count);
}
template <typename I>
MEZZO_HD inline I shift_right(I x, I places, int bits) {
  const auto count = static_cast<std::uint64_t>(places);
  if (count < static_cast<std::uint64_t>(bits)) return x >> count;
  if constexpr (std::is_signed_v<I>) {
    if (x < 0) return -1;
  }
  return 0;
}

}  // namespace formulas

}  // namespace mezzo::kernels
