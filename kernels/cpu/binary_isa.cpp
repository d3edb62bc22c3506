// Elementwise operations of two and three operands, forward. Truth values are 0 and 1.
#include "kernels/cpu/elementwise_loops.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

MEZZO_VEC F truth(M m) { return select(m, set1(1.0F), zero()); }

struct Add : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return a + b; }
};
struct Sub : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return a - b; }
};
struct Mul : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return a * b; }
};
struct Div : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return a / b; }
};
struct Pow : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return pow(a, b); }
};
struct Max : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return max_nan(a, b); }
};
struct Min : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return min_nan(a, b); }
};
struct Equal : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return truth(a == b); }
};
struct Less : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return truth(a < b); }
};
struct Greater : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return truth(b < a); }
};
struct LessOrEqual : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return truth(a <= b); }
};
struct GreaterOrEqual : Plain {
  using Plain::Plain;
  F operator()(F a, F b) const { return truth(b <= a); }
};
struct PRelu : Plain {
  using Plain::Plain;
  F operator()(F x, F slope) const { return select(x < zero(), slope * x, x); }
};
struct Where : Plain {
  using Plain::Plain;
  F operator()(F condition, F a, F b) const { return select(condition != zero(), a, b); }
};
struct Clip : Plain {
  using Plain::Plain;
  F operator()(F x, F low, F high) const {
    return min_or_second(high, max_or_second(low, x));  // NaN stays
  }
};

// The nearest integer, halves to even, and NaN as 0; saturating.
struct Quantize : WithAlphaBeta {
  using WithAlphaBeta::WithAlphaBeta;
  F operator()(F x, F scale, F zero_point) const {
    const F quotient = round(x / scale);
    const F place = select(is_nan(quotient), zero(), quotient) + zero_point;
    return min_or_second(beta, max_or_second(alpha, place));
  }
};
struct Dequantize : Plain {
  using Plain::Plain;
  F operator()(F x, F scale, F zero_point) const { return (x - zero_point) * scale; }
};

}  // namespace

ElementwiseLoop binary_loop(ElementwiseOp op) {
  switch (op) {
    case ElementwiseOp::kAdd: return loop2<Add>;
    case ElementwiseOp::kSub: return loop2<Sub>;
    case ElementwiseOp::kMul: return loop2<Mul>;
    case ElementwiseOp::kDiv: return loop2<Div>;
    case ElementwiseOp::kPow: return loop2<Pow>;
    case ElementwiseOp::kMax: return loop2<Max>;
    case ElementwiseOp::kMin: return loop2<Min>;
    case ElementwiseOp::kEqual: return loop2<Equal>;
    case ElementwiseOp::kLess: return loop2<Less>;
    case ElementwiseOp::kGreater: return loop2<Greater>;
    case ElementwiseOp::kLessOrEqual: return loop2<LessOrEqual>;
    case ElementwiseOp::kGreaterOrEqual: return loop2<GreaterOrEqual>;
    case ElementwiseOp::kPRelu: return loop2<PRelu>;
    case ElementwiseOp::kWhere: return loop3<Where>;
    case ElementwiseOp::kClip: return loop3<Clip>;
    case ElementwiseOp::kQuantize: return loop3<Quantize>;
    case ElementwiseOp::kDequantize: return loop3<Dequantize>;
    default: return nullptr;
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
