// Elementwise operations of one operand. Formulas: kernels/README.md and ONNX.
#include "kernels/cpu/elementwise_loops.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

struct Relu : Plain {
  using Plain::Plain;
  F operator()(F x) const { return max_or_second(zero(), x); }  // NaN stays
};
struct Sigmoid : Plain {
  using Plain::Plain;
  F operator()(F x) const { return sigmoid(x); }
};
struct Tanh : Plain {
  using Plain::Plain;
  F operator()(F x) const { return tanh(x); }
};
struct Erf : Plain {
  using Plain::Plain;
  F operator()(F x) const { return erf(x); }
};
struct Exp : Plain {
  using Plain::Plain;
  F operator()(F x) const { return exp(x); }
};
struct Log : Plain {
  using Plain::Plain;
  F operator()(F x) const { return log(x); }
};
struct Sqrt : Plain {
  using Plain::Plain;
  F operator()(F x) const { return sqrt(x); }
};
struct Reciprocal : Plain {
  using Plain::Plain;
  F operator()(F x) const { return set1(1.0F) / x; }
};
struct Neg : Plain {
  using Plain::Plain;
  F operator()(F x) const { return negate(x); }
};
struct Abs : Plain {
  using Plain::Plain;
  F operator()(F x) const { return abs(x); }
};
struct Softplus : Plain {
  using Plain::Plain;
  F operator()(F x) const { return softplus(x); }
};
struct HardSigmoid : WithAlphaBeta {
  using WithAlphaBeta::WithAlphaBeta;
  F operator()(F x) const {
    return max_or_second(zero(), min_or_second(set1(1.0F), fma(alpha, x, beta)));
  }
};
struct HardSwish : Plain {
  using Plain::Plain;
  F operator()(F x) const {
    const F gate = fma(x, set1(1.0F / 6.0F), set1(0.5F));
    return x * max_or_second(zero(), min_or_second(set1(1.0F), gate));
  }
};
struct LeakyRelu : WithAlpha {
  using WithAlpha::WithAlpha;
  F operator()(F x) const { return select(x < zero(), alpha * x, x); }
};
struct Elu : WithAlpha {
  using WithAlpha::WithAlpha;
  F operator()(F x) const { return select(x < zero(), alpha * expm1_negative(x), x); }
};
struct Sin : Plain {
  using Plain::Plain;
  F operator()(F x) const { return sin(x); }
};
struct Cos : Plain {
  using Plain::Plain;
  F operator()(F x) const { return cos(x); }
};
struct Gelu : Plain {
  using Plain::Plain;
  F operator()(F x) const { return x * normal(x).integral; }
};
struct GeluTanh : Plain {
  using Plain::Plain;
  // 0.5 (1 + tanh u) = sigmoid(2u), which keeps its digits for negative u.
  F operator()(F x) const {
    const F u = x * set1(kGeluTanhInner) * fma(x * x, set1(kGeluTanhCubic), set1(1.0F));
    return x * sigmoid(u + u);
  }
};
struct Swish : WithAlpha {
  using WithAlpha::WithAlpha;
  F operator()(F x) const { return x * sigmoid(alpha * x); }
};
struct Floor : Plain {
  using Plain::Plain;
  F operator()(F x) const { return floor(x); }
};
struct Ceil : Plain {
  using Plain::Plain;
  F operator()(F x) const { return ceil(x); }
};
struct Round : Plain {  // halves to the even neighbour
  using Plain::Plain;
  F operator()(F x) const { return round(x); }
};
struct Sign : Plain {
  using Plain::Plain;
  F operator()(F x) const {
    const F sign = select(x < zero(), set1(-1.0F), select(zero() < x, set1(1.0F), zero()));
    return select(is_nan(x), x, sign);
  }
};
struct Selu : WithAlphaBeta {
  using WithAlphaBeta::WithAlphaBeta;
  F operator()(F x) const { return beta * select(x < zero(), alpha * expm1_negative(x), x); }
};
struct Celu : WithAlpha {  // alpha > 0
  using WithAlpha::WithAlpha;
  F operator()(F x) const { return select(x < zero(), alpha * expm1_negative(x / alpha), x); }
};
struct Mish : Plain {
  using Plain::Plain;
  F operator()(F x) const { return x * tanh(softplus(x)); }
};
struct Softsign : Plain {
  using Plain::Plain;
  F operator()(F x) const {
    const F size = abs(x);
    const F at_infinity = copy_sign(set1(1.0F), x);
    return select(size == set1(__builtin_inff()), at_infinity, x / (set1(1.0F) + size));
  }
};
struct ThresholdedRelu : WithAlpha {
  using WithAlpha::WithAlpha;
  F operator()(F x) const { return select(x <= alpha, zero(), x); }
};
struct Shrink : WithAlphaBeta {
  using WithAlphaBeta::WithAlphaBeta;
  F operator()(F x) const {
    const F inside = select(is_nan(x), x, zero());
    return select(x < negate(alpha), x + beta, select(alpha < x, x - beta, inside));
  }
};
struct IsNan : Plain {
  using Plain::Plain;
  F operator()(F x) const { return select(is_nan(x), set1(1.0F), zero()); }
};
struct IsInf : WithAlphaBeta {  // 1 or 0: does -infinity count, does +infinity
  using WithAlphaBeta::WithAlphaBeta;
  F operator()(F x) const {
    const F infinity = set1(__builtin_inff());
    return select(x == infinity, beta, select(x == negate(infinity), alpha, zero()));
  }
};
struct Scale : WithAlpha {
  using WithAlpha::WithAlpha;
  F operator()(F x) const { return alpha * x; }
};

}  // namespace

ElementwiseLoop unary_loop(ElementwiseOp op) {
  switch (op) {
    case ElementwiseOp::kRelu: return loop1<Relu>;
    case ElementwiseOp::kSigmoid: return loop1<Sigmoid>;
    case ElementwiseOp::kTanh: return loop1<Tanh>;
    case ElementwiseOp::kErf: return loop1<Erf>;
    case ElementwiseOp::kExp: return loop1<Exp>;
    case ElementwiseOp::kLog: return loop1<Log>;
    case ElementwiseOp::kSqrt: return loop1<Sqrt>;
    case ElementwiseOp::kReciprocal: return loop1<Reciprocal>;
    case ElementwiseOp::kNeg: return loop1<Neg>;
    case ElementwiseOp::kAbs: return loop1<Abs>;
    case ElementwiseOp::kSoftplus: return loop1<Softplus>;
    case ElementwiseOp::kHardSigmoid: return loop1<HardSigmoid>;
    case ElementwiseOp::kHardSwish: return loop1<HardSwish>;
    case ElementwiseOp::kLeakyRelu: return loop1<LeakyRelu>;
    case ElementwiseOp::kElu: return loop1<Elu>;
    case ElementwiseOp::kSin: return loop1<Sin>;
    case ElementwiseOp::kCos: return loop1<Cos>;
    case ElementwiseOp::kGelu: return loop1<Gelu>;
    case ElementwiseOp::kGeluTanh: return loop1<GeluTanh>;
    case ElementwiseOp::kSwish: return loop1<Swish>;
    case ElementwiseOp::kFloor: return loop1<Floor>;
    case ElementwiseOp::kCeil: return loop1<Ceil>;
    case ElementwiseOp::kRound: return loop1<Round>;
    case ElementwiseOp::kSign: return loop1<Sign>;
    case ElementwiseOp::kScale: return loop1<Scale>;
    case ElementwiseOp::kSelu: return loop1<Selu>;
    case ElementwiseOp::kCelu: return loop1<Celu>;
    case ElementwiseOp::kMish: return loop1<Mish>;
    case ElementwiseOp::kSoftsign: return loop1<Softsign>;
    case ElementwiseOp::kThresholdedRelu: return loop1<ThresholdedRelu>;
    case ElementwiseOp::kShrink: return loop1<Shrink>;
    case ElementwiseOp::kIsNan: return loop1<IsNan>;
    case ElementwiseOp::kIsInf: return loop1<IsInf>;
    default: return nullptr;
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
