// Gradients of elementwise operations: (dy, x) -> dx, or (dy, y) -> dx where the comment of
// kernels/README.md says so.
#include "kernels/cpu/elementwise_loops.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

struct ReluGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F y) const { return select(zero() < y, dy, zero()); }
};
struct SigmoidGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F y) const { return dy * y * (set1(1.0F) - y); }
};
struct TanhGrad : Plain {
  using Plain::Plain;
  // (1 - y)(1 + y): 1 - y is exact where it matters.
  F operator()(F dy, F y) const { return dy * ((set1(1.0F) - y) * (set1(1.0F) + y)); }
};
struct GeluGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F x) const {
    const Normal n = normal(x);
    return dy * fma(x * set1(kInvSqrt2Pi), n.bell, n.integral);
  }
};
struct GeluTanhGrad : Plain {
  using Plain::Plain;
  // y = x s, s = sigmoid(2u), u' = sqrt(2/pi) (1 + 3 c x^2): y' = s + 2 x s (1 - s) u'.
  F operator()(F dy, F x) const {
    const F square = x * x;
    const F u = x * set1(kGeluTanhInner) * fma(square, set1(kGeluTanhCubic), set1(1.0F));
    const F slope =
        set1(2.0F * kGeluTanhInner) * fma(square, set1(3.0F * kGeluTanhCubic), set1(1.0F));
    const F s = sigmoid(u + u);
    return dy * fma(x * s * sigmoid(negate(u + u)), slope, s);
  }
};
struct SwishGrad : WithAlpha {
  using WithAlpha::WithAlpha;
  F operator()(F dy, F x) const {
    const F s = sigmoid(alpha * x);
    return dy * fma(alpha * x * s, sigmoid(negate(alpha * x)), s);
  }
};
struct ErfGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F x) const { return dy * set1(kTwoInvSqrtPi) * exp(negate(x * x)); }
};
struct SoftplusGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F x) const { return dy * sigmoid(x); }
};
struct HardSwishGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F x) const {
    const F inner = fma(x, set1(1.0F / 3.0F), set1(0.5F));
    const F slope = select(x < set1(3.0F), inner, set1(1.0F));
    return dy * select(x <= set1(-3.0F), zero(), select(is_nan(x), x, slope));
  }
};
struct HardSigmoidGrad : WithAlphaBeta {
  using WithAlphaBeta::WithAlphaBeta;
  F operator()(F dy, F x) const {
    const F line = fma(alpha, x, beta);
    return select((zero() < line) & (line < set1(1.0F)), dy * alpha, zero());
  }
};
struct LeakyReluGrad : WithAlpha {
  using WithAlpha::WithAlpha;
  F operator()(F dy, F x) const { return select(zero() < x, dy, alpha * dy); }
};
struct EluGrad : WithAlpha {
  using WithAlpha::WithAlpha;
  F operator()(F dy, F x) const { return select(zero() < x, dy, dy * alpha * exp(x)); }
};
struct LogGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F x) const { return dy / x; }
};
struct AbsGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F x) const {
    return select(zero() < x, dy, select(x < zero(), negate(dy), zero()));
  }
};
struct SinGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F x) const { return dy * cos(x); }
};
struct CosGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F x) const { return negate(dy * sin(x)); }
};
struct ExpGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F y) const { return dy * y; }
};
struct SqrtGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F y) const { return set1(0.5F) * dy / y; }
};
struct ReciprocalGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F y) const { return negate(dy * y * y); }
};
struct ClipGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F x, F low, F high) const {
    return select((low <= x) & (x <= high), dy, zero());
  }
};
struct PowGrad : Plain {
  using Plain::Plain;
  F operator()(F dy, F x, F e) const {
    const F slope = e * pow(x, e - set1(1.0F));
    return dy * select(e == zero(), zero(), slope);
  }
};
struct DropoutGrad : WithAlpha {  // alpha: 1 / (1 - ratio)
  using WithAlpha::WithAlpha;
  F operator()(F dy, F mask) const { return select(mask != zero(), alpha * dy, zero()); }
};

}  // namespace

ElementwiseLoop gradient_loop(ElementwiseOp op) {
  switch (op) {
    case ElementwiseOp::kReluGrad: return loop2<ReluGrad>;
    case ElementwiseOp::kSigmoidGrad: return loop2<SigmoidGrad>;
    case ElementwiseOp::kTanhGrad: return loop2<TanhGrad>;
    case ElementwiseOp::kGeluGrad: return loop2<GeluGrad>;
    case ElementwiseOp::kGeluTanhGrad: return loop2<GeluTanhGrad>;
    case ElementwiseOp::kSwishGrad: return loop2<SwishGrad>;
    case ElementwiseOp::kErfGrad: return loop2<ErfGrad>;
    case ElementwiseOp::kSoftplusGrad: return loop2<SoftplusGrad>;
    case ElementwiseOp::kHardSwishGrad: return loop2<HardSwishGrad>;
    case ElementwiseOp::kHardSigmoidGrad: return loop2<HardSigmoidGrad>;
    case ElementwiseOp::kLeakyReluGrad: return loop2<LeakyReluGrad>;
    case ElementwiseOp::kEluGrad: return loop2<EluGrad>;
    case ElementwiseOp::kLogGrad: return loop2<LogGrad>;
    case ElementwiseOp::kAbsGrad: return loop2<AbsGrad>;
    case ElementwiseOp::kSinGrad: return loop2<SinGrad>;
    case ElementwiseOp::kCosGrad: return loop2<CosGrad>;
    case ElementwiseOp::kExpGrad: return loop2<ExpGrad>;
    case ElementwiseOp::kSqrtGrad: return loop2<SqrtGrad>;
    case ElementwiseOp::kReciprocalGrad: return loop2<ReciprocalGrad>;
    case ElementwiseOp::kClipGrad: return loop4<ClipGrad>;
    case ElementwiseOp::kPowGrad: return loop3<PowGrad>;
    case ElementwiseOp::kDropoutGrad: return loop2<DropoutGrad>;
    default: return nullptr;
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
