// What each elementwise operator computes: one table for the CPU's reference kernels (double) and
// the GPU's kernels (float, double).
//
// with_formula(op, alpha, beta, visit) calls visit(f) with f(a, b, c) for numbers a, b, c in the
// order of kernels/README.md; functions of fewer operands ignore the rest. Truth values are 0
// and 1. NaN goes through every function (Relu, AtLeast and Shrink included), so that an overflow
// upstream stays visible. Formulas: ONNX, and kernels/README.md for gradients. At kinks derivatives
// are PyTorch's: 0 for Abs at 0, for Relu and LeakyRelu the one from below, 1 on both ends of Clip.
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

enum class ElementOp : std::uint8_t {
  // a
  kIdentity,
  kRelu,
  kSigmoid,
  kTanh,
  kErf,
  kExp,
  kLog,
  kSqrt,
  kReciprocal,
  kNeg,
  kAbs,
  kSoftplus,
  kHardSigmoid,  // alpha, beta
  kHardSwish,
  kLeakyRelu,  // alpha
  kElu,        // alpha
  kSin,
  kCos,
  kGelu,
  kGeluTanh,
  kSwish,  // alpha
  kFloor,
  kCeil,
  kRound,  // halves to even
  kSign,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kSelu,  // alpha, beta: gamma
  kCelu,  // alpha
  kMish,
  kSoftsign,
  kThresholdedRelu,  // alpha
  kShrink,           // alpha: lambd, beta: bias
  kIsNan,
  kIsInf,    // alpha, beta: do -infinity and +infinity count
  kIsTrue,   // a != 0, NaN counts
  kToHalf,   // the nearest float16, as a number
  kToBrain,  // the nearest bfloat16
  kNot,
  kBitNot,  // integers alone
  // a, b
  kAdd,
  kSub,
  kMul,
  kDiv,
  kPow,  // integers: alpha 1 where the base is uint64 and the exponent is not
  kMax,
  kMin,
  kMod,   // the divisor's sign
  kFMod,  // the dividend's sign
  kPRelu,
  kEqual,
  kLess,
  kGreater,
  kLessOrEqual,
  kGreaterOrEqual,
  kAnd,
  kOr,
  kXor,
  kBitAnd,      // integers alone, as the next
  kBitOr,       //
  kBitXor,      //
  kShiftLeft,   // alpha: the dtype's bits
  kShiftRight,  //
  kAtLeast,     // a, or b where a is less: Clip from below
  kAtMost,
  kReluGrad,  // dy, y
  kSigmoidGrad,
  kTanhGrad,
  kExpGrad,
  kSqrtGrad,
  kReciprocalGrad,
  kGeluGrad,  // dy, x
  kGeluTanhGrad,
  kSwishGrad,  // alpha
  kErfGrad,
  kSoftplusGrad,
  kHardSwishGrad,
  kHardSigmoidGrad,  // alpha, beta
  kLeakyReluGrad,    // alpha
  kEluGrad,          // alpha
  kLogGrad,
  kAbsGrad,
  kSinGrad,
  kCosGrad,
  kDropoutGrad,  // dy, mask; alpha: 1 / (1 - ratio)
  // a, b, c
  kWhere,
  kPowGrad,      // dy, x, exponent
  kAtLeastGrad,  // dy, x, low
  kAtMostGrad,   // dy, x, high
};
inline constexpr int kElementOps = static_cast<int>(ElementOp::kAtMostGrad) + 1;

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

// A visitor made on a GPU is called there alone.
#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
// T: float or double. False, and no call, for operators of integers alone and for kToHalf and
// kToBrain, which belong to whoever knows these types.
template <typename T, typename Visit>
MEZZO_HD inline bool with_formula(ElementOp op, T alpha, T beta, Visit&& visit) {
  namespace f = formulas;
  switch (op) {
    case ElementOp::kIdentity: visit([](T a, T, T) { return a; }); break;
    case ElementOp::kRelu: visit([](T a, T, T) { return f::relu(a); }); break;
    case ElementOp::kSigmoid: visit([](T a, T, T) { return f::sigmoid(a); }); break;
    case ElementOp::kTanh: visit([](T a, T, T) { return f::called_tanh(a); }); break;
    case ElementOp::kErf: visit([](T a, T, T) { return f::called_erf(a); }); break;
    case ElementOp::kExp: visit([](T a, T, T) { return f::exp(a); }); break;
    case ElementOp::kLog: visit([](T a, T, T) { return f::called_log(a); }); break;
    case ElementOp::kSqrt: visit([](T a, T, T) { return std::sqrt(a); }); break;
    case ElementOp::kReciprocal: visit([](T a, T, T) { return T(1) / a; }); break;
    case ElementOp::kNeg: visit([](T a, T, T) { return -a; }); break;
    case ElementOp::kAbs: visit([](T a, T, T) { return std::fabs(a); }); break;
    case ElementOp::kSoftplus: visit([](T a, T, T) { return f::softplus(a); }); break;
    case ElementOp::kHardSigmoid:
      visit([=](T a, T, T) { return f::unit(alpha * a + beta); });
      break;
    case ElementOp::kHardSwish:
      visit([](T a, T, T) { return a * f::unit(a / T(6) + T(0.5)); });
      break;
    case ElementOp::kLeakyRelu: visit([=](T a, T, T) { return a < T(0) ? alpha * a : a; }); break;
    case ElementOp::kElu:
      visit([=](T a, T, T) { return a < T(0) ? alpha * f::called_expm1(a) : a; });
      break;
    case ElementOp::kSin: visit([](T a, T, T) { return f::called_sin(a); }); break;
    case ElementOp::kCos: visit([](T a, T, T) { return f::called_cos(a); }); break;
    case ElementOp::kGelu: visit([](T a, T, T) { return f::gelu(a); }); break;
    case ElementOp::kGeluTanh: visit([](T a, T, T) { return f::gelu_tanh(a); }); break;
    case ElementOp::kSwish: visit([=](T a, T, T) { return a * f::sigmoid(alpha * a); }); break;
    case ElementOp::kFloor: visit([](T a, T, T) { return std::floor(a); }); break;
    case ElementOp::kCeil: visit([](T a, T, T) { return std::ceil(a); }); break;
    case ElementOp::kRound: visit([](T a, T, T) { return std::nearbyint(a); }); break;
    case ElementOp::kSign: visit([](T a, T, T) { return f::sign(a); }); break;
    case ElementOp::kTan: visit([](T a, T, T) { return f::called_tan(a); }); break;
    case ElementOp::kAsin: visit([](T a, T, T) { return f::called_asin(a); }); break;
    case ElementOp::kAcos: visit([](T a, T, T) { return f::called_acos(a); }); break;
    case ElementOp::kAtan: visit([](T a, T, T) { return f::called_atan(a); }); break;
    case ElementOp::kSinh: visit([](T a, T, T) { return f::called_sinh(a); }); break;
    case ElementOp::kCosh: visit([](T a, T, T) { return f::called_cosh(a); }); break;
    case ElementOp::kAsinh: visit([](T a, T, T) { return f::called_asinh(a); }); break;
    case ElementOp::kAcosh: visit([](T a, T, T) { return f::called_acosh(a); }); break;
    case ElementOp::kAtanh: visit([](T a, T, T) { return f::called_atanh(a); }); break;
    case ElementOp::kSelu:
      visit([=](T a, T, T) { return beta * (a < T(0) ? alpha * f::called_expm1(a) : a); });
      break;
    case ElementOp::kCelu:
      visit([=](T a, T, T) { return a < T(0) ? alpha * f::called_expm1(a / alpha) : a; });
      break;
    case ElementOp::kMish:
      visit([](T a, T, T) { return a * f::called_tanh(f::softplus(a)); });
      break;
    case ElementOp::kSoftsign: visit([](T a, T, T) { return f::softsign(a); }); break;
    case ElementOp::kThresholdedRelu:
      visit([=](T a, T, T) { return a <= alpha ? T(0) : a; });
      break;
    case ElementOp::kShrink: visit([=](T a, T, T) { return f::shrink(a, alpha, beta); }); break;
    case ElementOp::kIsNan: visit([](T a, T, T) { return f::truth<T>(f::is_nan(a)); }); break;
    case ElementOp::kIsInf:
      visit([=](T a, T, T) { return std::isinf(a) ? (a < T(0) ? alpha : beta) : T(0); });
      break;
    case ElementOp::kIsTrue: visit([](T a, T, T) { return f::truth<T>(a != T(0)); }); break;
    case ElementOp::kNot: visit([](T a, T, T) { return f::truth<T>(a == T(0)); }); break;
    case ElementOp::kAdd: visit([](T a, T b, T) { return a + b; }); break;
    case ElementOp::kSub: visit([](T a, T b, T) { return a - b; }); break;
    case ElementOp::kMul: visit([](T a, T b, T) { return a * b; }); break;
    case ElementOp::kDiv: visit([](T a, T b, T) { return a / b; }); break;
    case ElementOp::kPow: visit([](T a, T b, T) { return f::power(a, b); }); break;
    case ElementOp::kMax: visit([](T a, T b, T) { return f::maximum(a, b); }); break;
    case ElementOp::kMin: visit([](T a, T b, T) { return f::minimum(a, b); }); break;
    case ElementOp::kMod: visit([](T a, T b, T) { return f::floor_mod(a, b); }); break;
    case ElementOp::kFMod: visit([](T a, T b, T) { return f::c_mod(a, b); }); break;
    case ElementOp::kPRelu: visit([](T a, T b, T) { return a < T(0) ? b * a : a; }); break;
    case ElementOp::kEqual: visit([](T a, T b, T) { return f::truth<T>(a == b); }); break;
    case ElementOp::kLess: visit([](T a, T b, T) { return f::truth<T>(a < b); }); break;
    case ElementOp::kGreater: visit([](T a, T b, T) { return f::truth<T>(a > b); }); break;
    case ElementOp::kLessOrEqual: visit([](T a, T b, T) { return f::truth<T>(a <= b); }); break;
    case ElementOp::kGreaterOrEqual: visit([](T a, T b, T) { return f::truth<T>(a >= b); }); break;
    case ElementOp::kAnd:
      visit([](T a, T b, T) { return f::truth<T>(a != T(0) && b != T(0)); });
      break;
    case ElementOp::kOr:
      visit([](T a, T b, T) { return f::truth<T>(a != T(0) || b != T(0)); });
      break;
    case ElementOp::kXor:
      visit([](T a, T b, T) { return f::truth<T>((a != T(0)) != (b != T(0))); });
      break;
    case ElementOp::kAtLeast: visit([](T a, T b, T) { return a < b ? b : a; }); break;
    case ElementOp::kAtMost: visit([](T a, T b, T) { return a > b ? b : a; }); break;
    case ElementOp::kReluGrad: visit([](T dy, T y, T) { return y > T(0) ? dy : T(0); }); break;
    case ElementOp::kSigmoidGrad: visit([](T dy, T y, T) { return dy * y * (T(1) - y); }); break;
    case ElementOp::kTanhGrad:  // the factors are exact where 1 - y^2 is not
      visit([](T dy, T y, T) { return dy * ((T(1) - y) * (T(1) + y)); });
      break;
    case ElementOp::kExpGrad: visit([](T dy, T y, T) { return dy * y; }); break;
    case ElementOp::kSqrtGrad: visit([](T dy, T y, T) { return T(0.5) * dy / y; }); break;
    case ElementOp::kReciprocalGrad: visit([](T dy, T y, T) { return -dy * y * y; }); break;
    case ElementOp::kGeluGrad: visit([](T dy, T x, T) { return f::gelu_grad(dy, x); }); break;
    case ElementOp::kGeluTanhGrad:
      visit([](T dy, T x, T) { return f::gelu_tanh_grad(dy, x); });
      break;
    case ElementOp::kSwishGrad:
      visit([=](T dy, T x, T) { return f::swish_grad(dy, x, alpha); });
      break;
    case ElementOp::kErfGrad:
      visit([](T dy, T x, T) { return dy * T(1.12837916709551257390) * f::exp(-x * x); });
      break;
    case ElementOp::kSoftplusGrad: visit([](T dy, T x, T) { return dy * f::sigmoid(x); }); break;
    case ElementOp::kHardSwishGrad:
      visit([](T dy, T x, T) { return f::hard_swish_grad(dy, x); });
      break;
    case ElementOp::kHardSigmoidGrad:
      visit([=](T dy, T x, T) { return f::hard_sigmoid_grad(dy, x, alpha, beta); });
      break;
    case ElementOp::kLeakyReluGrad:
      visit([=](T dy, T x, T) { return x > T(0) ? dy : alpha * dy; });
      break;
    case ElementOp::kEluGrad:
      visit([=](T dy, T x, T) { return x > T(0) ? dy : dy * alpha * f::exp(x); });
      break;
    case ElementOp::kLogGrad: visit([](T dy, T x, T) { return dy / x; }); break;
    case ElementOp::kAbsGrad:
      visit([](T dy, T x, T) { return x > T(0) ? dy : x < T(0) ? -dy : T(0); });
      break;
    case ElementOp::kSinGrad: visit([](T dy, T x, T) { return dy * f::called_cos(x); }); break;
    case ElementOp::kCosGrad: visit([](T dy, T x, T) { return -dy * f::called_sin(x); }); break;
    case ElementOp::kDropoutGrad:
      visit([=](T dy, T mask, T) { return mask != T(0) ? dy * alpha : T(0); });
      break;
    case ElementOp::kWhere: visit([](T a, T b, T c) { return a != T(0) ? b : c; }); break;
    case ElementOp::kPowGrad: visit([](T dy, T x, T e) { return f::power_grad(dy, x, e); }); break;
    case ElementOp::kAtLeastGrad: visit([](T dy, T x, T b) { return x >= b ? dy : T(0); }); break;
    case ElementOp::kAtMostGrad: visit([](T dy, T x, T b) { return x <= b ? dy : T(0); }); break;
    default: return false;
  }
  return true;
}

// One operation on one element. REQUIRES: with_formula() has it.
template <typename T>
MEZZO_HD inline T compute_formula(ElementOp op, T a, T b, T c, T alpha, T beta) {
  T y = a;
  with_formula(op, alpha, beta, [&](auto formula) { y = formula(a, b, c); });
  return y;
}

#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
// The same for integers, I being std::int64_t or, for uint64 alone, std::uint64_t: narrower dtypes
// keep the low bits of what comes out. `alpha` and `beta` are whole numbers. Divisors are not 0.
template <typename I, typename Visit>
MEZZO_HD inline bool with_integer_formula(ElementOp op, I alpha, I beta, Visit&& visit) {
  namespace f = formulas;
  switch (op) {
    case ElementOp::kIdentity: visit([](I a, I, I) { return a; }); break;
    case ElementOp::kRelu: visit([](I a, I, I) { return f::integer_relu(a); }); break;
    case ElementOp::kNeg: visit([](I a, I, I) { return f::wrapping_negate(a); }); break;
    case ElementOp::kAbs: visit([](I a, I, I) { return f::integer_abs(a); }); break;
    case ElementOp::kSign: visit([](I a, I, I) { return f::integer_sign(a); }); break;
    case ElementOp::kShrink:
      visit([=](I a, I, I) { return f::integer_shrink(a, alpha, beta); });
      break;
    case ElementOp::kIsTrue: visit([](I a, I, I) { return I(a != 0); }); break;
    case ElementOp::kNot: visit([](I a, I, I) { return I(a == 0); }); break;
    case ElementOp::kBitNot: visit([](I a, I, I) { return ~a; }); break;
    case ElementOp::kAdd: visit([](I a, I b, I) { return f::wrapping_add(a, b); }); break;
    case ElementOp::kSub:
      visit([](I a, I b, I) { return f::wrapping_add(a, f::wrapping_negate(b)); });
      break;
    case ElementOp::kMul: visit([](I a, I b, I) { return f::wrapping_multiply(a, b); }); break;
    case ElementOp::kDiv: visit([](I a, I b, I) { return f::integer_quotient(a, b); }); break;
    case ElementOp::kPow:
      visit([=](I a, I b, I) { return f::integer_power(a, b, alpha != 0); });
      break;
    case ElementOp::kMax: visit([](I a, I b, I) { return a > b ? a : b; }); break;
    case ElementOp::kMin: visit([](I a, I b, I) { return a < b ? a : b; }); break;
    case ElementOp::kMod: visit([](I a, I b, I) { return f::integer_floor_mod(a, b); }); break;
    case ElementOp::kFMod: visit([](I a, I b, I) { return f::integer_remainder(a, b); }); break;
    case ElementOp::kPRelu: visit([](I a, I b, I) { return f::integer_prelu(a, b); }); break;
    case ElementOp::kEqual: visit([](I a, I b, I) { return I(a == b); }); break;
    case ElementOp::kLess: visit([](I a, I b, I) { return I(a < b); }); break;
    case ElementOp::kGreater: visit([](I a, I b, I) { return I(a > b); }); break;
    case ElementOp::kLessOrEqual: visit([](I a, I b, I) { return I(a <= b); }); break;
    case ElementOp::kGreaterOrEqual: visit([](I a, I b, I) { return I(a >= b); }); break;
    case ElementOp::kAnd: visit([](I a, I b, I) { return I(a != 0 && b != 0); }); break;
    case ElementOp::kOr: visit([](I a, I b, I) { return I(a != 0 || b != 0); }); break;
    case ElementOp::kXor: visit([](I a, I b, I) { return I((a != 0) != (b != 0)); }); break;
    case ElementOp::kBitAnd: visit([](I a, I b, I) { return a & b; }); break;
    case ElementOp::kBitOr: visit([](I a, I b, I) { return a | b; }); break;
    case ElementOp::kBitXor: visit([](I a, I b, I) { return a ^ b; }); break;
    case ElementOp::kShiftLeft:
      visit([=](I a, I b, I) { return f::shift_left(a, b, static_cast<int>(alpha)); });
      break;
    case ElementOp::kShiftRight:
      visit([=](I a, I b, I) { return f::shift_right(a, b, static_cast<int>(alpha)); });
      break;
    case ElementOp::kAtLeast: visit([](I a, I b, I) { return a < b ? b : a; }); break;
    case ElementOp::kAtMost: visit([](I a, I b, I) { return a > b ? b : a; }); break;
    case ElementOp::kWhere: visit([](I a, I b, I c) { return a != 0 ? b : c; }); break;
    default: return false;
  }
  return true;
}

}  // namespace mezzo::kernels
