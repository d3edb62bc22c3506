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

#include "kernels/formulas/element_functions.h"
#include "kernels/formulas/host_device.h"

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
