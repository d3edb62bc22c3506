// Functions of one operand on double and integers, and on float where vec_math.h has no vector
// form; Clip and DequantizeLinear. Formulas: kernels/README.md and ONNX.
#include "kernels/cpu/typed_loops.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

struct AlphaBeta {
  explicit AlphaBeta(const double* parameters) : alpha(parameters[0]), beta(parameters[1]) {}
  double alpha;
  double beta;
};

// A function of the C library in both precisions.
#define MEZZO_LIBRARY(Name, function)                                      \
  struct Name : Bare {                                                     \
    using Bare::Bare;                                                      \
    float operator()(float x) const { return __builtin_##function##f(x); } \
    double operator()(double x) const { return __builtin_##function(x); }  \
  }
MEZZO_LIBRARY(Tan, tan);
MEZZO_LIBRARY(Asin, asin);
MEZZO_LIBRARY(Acos, acos);
MEZZO_LIBRARY(Atan, atan);
MEZZO_LIBRARY(Sinh, sinh);
MEZZO_LIBRARY(Cosh, cosh);
MEZZO_LIBRARY(Asinh, asinh);
MEZZO_LIBRARY(Acosh, acosh);
MEZZO_LIBRARY(Atanh, atanh);
MEZZO_LIBRARY(Sin, sin);
MEZZO_LIBRARY(Cos, cos);
MEZZO_LIBRARY(Tanh, tanh);
MEZZO_LIBRARY(Erf, erf);
MEZZO_LIBRARY(Exp, exp);
MEZZO_LIBRARY(Log, log);
MEZZO_LIBRARY(Sqrt, sqrt);
MEZZO_LIBRARY(Floor, floor);
MEZZO_LIBRARY(Ceil, ceil);
MEZZO_LIBRARY(Round, rint);  // halves to the even neighbour
#undef MEZZO_LIBRARY

double sigmoid(double x) { return 1.0 / (1.0 + __builtin_exp(-x)); }
double softplus(double x) {
  return (x > 0.0 ? x : x != x ? x : 0.0) + __builtin_log1p(__builtin_exp(-__builtin_fabs(x)));
}
double between_0_and_1(double x) { return x < 0.0 ? 0.0 : x > 1.0 ? 1.0 : x; }

struct Sigmoid : Bare {
  using Bare::Bare;
  double operator()(double x) const { return sigmoid(x); }
};
struct Reciprocal : Bare {
  using Bare::Bare;
  double operator()(double x) const { return 1.0 / x; }
};
struct Softplus : Bare {
  using Bare::Bare;
  double operator()(double x) const { return softplus(x); }
};
struct HardSigmoid : AlphaBeta {
  using AlphaBeta::AlphaBeta;
  double operator()(double x) const { return between_0_and_1(alpha * x + beta); }
};
struct HardSwish : Bare {
  using Bare::Bare;
  double operator()(double x) const { return x * between_0_and_1(x / 6.0 + 0.5); }
};
struct LeakyRelu : AlphaBeta {
  using AlphaBeta::AlphaBeta;
  double operator()(double x) const { return x < 0.0 ? alpha * x : x; }
};
struct Elu : AlphaBeta {
  using AlphaBeta::AlphaBeta;
  double operator()(double x) const { return x < 0.0 ? alpha * __builtin_expm1(x) : x; }
};
struct Selu : AlphaBeta {
  using AlphaBeta::AlphaBeta;
  double operator()(double x) const { return beta * (x < 0.0 ? alpha * __builtin_expm1(x) : x); }
};
struct Celu : AlphaBeta {
  using AlphaBeta::AlphaBeta;
  double operator()(double x) const { return x < 0.0 ? alpha * __builtin_expm1(x / alpha) : x; }
};
struct Mish : Bare {
  using Bare::Bare;
  double operator()(double x) const { return x * __builtin_tanh(softplus(x)); }
};
struct Softsign : Bare {
  using Bare::Bare;
  double operator()(double x) const {
    const double size = __builtin_fabs(x);
    return size == __builtin_inf() ? __builtin_copysign(1.0, x) : x / (1.0 + size);
  }
};
struct ThresholdedRelu : AlphaBeta {
  using AlphaBeta::AlphaBeta;
  double operator()(double x) const { return x <= alpha ? 0.0 : x; }
};
struct Shrink : AlphaBeta {
  using AlphaBeta::AlphaBeta;
  double operator()(double x) const {
    return x < -alpha ? x + beta : x > alpha ? x - beta : x != x ? x : 0.0;
  }
};
struct Gelu : Bare {
  using Bare::Bare;
  double operator()(double x) const {
    return 0.5 * x * __builtin_erfc(-x * 0.70710678118654752440);
  }
};
struct GeluTanh : Bare {
  using Bare::Bare;
  double operator()(double x) const {
    const double inner = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + __builtin_tanh(inner));
  }
};
struct Swish : AlphaBeta {
  using AlphaBeta::AlphaBeta;
  double operator()(double x) const { return x * sigmoid(alpha * x); }
};

struct Relu : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T x) const {
    return x < 0 ? static_cast<T>(0) : x;
  }
};
struct Neg : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T x) const {
    if constexpr (kIsReal<T>)
      return -x;
    else
      return static_cast<T>(0 - static_cast<Wrapping<T>>(x));
  }
};
struct Abs : Bare {
  using Bare::Bare;
  float operator()(float x) const { return __builtin_fabsf(x); }
  double operator()(double x) const { return __builtin_fabs(x); }
  template <class T>
  T operator()(T x) const {
    return x < 0 ? Neg(nullptr)(x) : x;
  }
};
struct Sign : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T x) const {
    if constexpr (kIsReal<T>) {
      if (x != x) return x;
    }
    return static_cast<T>((x > 0) - (x < 0));
  }
};
struct BitNot : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(~x);
  }
};

struct Clip : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T x, T low, T high) const {  // NaN stays
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};

struct Dequantize : Bare {
  using Bare::Bare;
  double operator()(double x, double scale, double zero) const { return (x - zero) * scale; }
};

TypedLoop double_or_null(DType dtype, TypedLoop loop) {
  return dtype == DType::kFloat64 ? loop : nullptr;
}
template <class Op>
TypedLoop double_map(DType dtype) {
  return double_or_null(dtype, typed1<Op, double, double>);
}

TypedLoop clip(DType dtype) {
  return for_numbers(dtype, [](auto tag) -> TypedLoop {
    using T = typename decltype(tag)::Type;
    return typed3<Clip, T, T, T, T>;
  });
}

TypedLoop activation(ElementwiseOp op, DType dtype) {
  switch (op) {
    case ElementwiseOp::kSigmoid: return double_map<Sigmoid>(dtype);
    case ElementwiseOp::kSoftplus: return double_map<Softplus>(dtype);
    case ElementwiseOp::kHardSigmoid: return double_map<HardSigmoid>(dtype);
    case ElementwiseOp::kHardSwish: return double_map<HardSwish>(dtype);
    case ElementwiseOp::kLeakyRelu: return double_map<LeakyRelu>(dtype);
    case ElementwiseOp::kElu: return double_map<Elu>(dtype);
    case ElementwiseOp::kSelu: return double_map<Selu>(dtype);
    case ElementwiseOp::kCelu: return double_map<Celu>(dtype);
    case ElementwiseOp::kMish: return double_map<Mish>(dtype);
    case ElementwiseOp::kSoftsign: return double_map<Softsign>(dtype);
    case ElementwiseOp::kThresholdedRelu: return double_map<ThresholdedRelu>(dtype);
    case ElementwiseOp::kShrink: return double_map<Shrink>(dtype);
    case ElementwiseOp::kGelu: return double_map<Gelu>(dtype);
    case ElementwiseOp::kGeluTanh: return double_map<GeluTanh>(dtype);
    case ElementwiseOp::kSwish: return double_map<Swish>(dtype);
    default: return nullptr;
  }
}

}  // namespace

TypedLoop typed_unary(ElementwiseOp op, DType dtype) {
  switch (op) {
    case ElementwiseOp::kTan: return real_map<Tan>(dtype);
    case ElementwiseOp::kAsin: return real_map<Asin>(dtype);
    case ElementwiseOp::kAcos: return real_map<Acos>(dtype);
    case ElementwiseOp::kAtan: return real_map<Atan>(dtype);
    case ElementwiseOp::kSinh: return real_map<Sinh>(dtype);
    case ElementwiseOp::kCosh: return real_map<Cosh>(dtype);
    case ElementwiseOp::kAsinh: return real_map<Asinh>(dtype);
    case ElementwiseOp::kAcosh: return real_map<Acosh>(dtype);
    case ElementwiseOp::kAtanh: return real_map<Atanh>(dtype);
    case ElementwiseOp::kSin: return real_map<Sin>(dtype);
    case ElementwiseOp::kCos: return real_map<Cos>(dtype);
    case ElementwiseOp::kTanh: return real_map<Tanh>(dtype);
    case ElementwiseOp::kErf: return real_map<Erf>(dtype);
    case ElementwiseOp::kExp: return real_map<Exp>(dtype);
    case ElementwiseOp::kLog: return real_map<Log>(dtype);
    case ElementwiseOp::kSqrt: return real_map<Sqrt>(dtype);
    case ElementwiseOp::kFloor: return real_map<Floor>(dtype);
    case ElementwiseOp::kCeil: return real_map<Ceil>(dtype);
    case ElementwiseOp::kRound: return real_map<Round>(dtype);
    case ElementwiseOp::kReciprocal: return double_map<Reciprocal>(dtype);
    case ElementwiseOp::kRelu: return number_map<Relu>(dtype);
    case ElementwiseOp::kNeg: return number_map<Neg>(dtype);
    case ElementwiseOp::kAbs: return number_map<Abs>(dtype);
    case ElementwiseOp::kSign: return number_map<Sign>(dtype);
    case ElementwiseOp::kBitNot: return integer_map<BitNot>(dtype);
    case ElementwiseOp::kClip: return clip(dtype);
    case ElementwiseOp::kDequantize:
      return double_or_null(dtype, typed3<Dequantize, double, double, double, double>);
    default: return activation(op, dtype);
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
