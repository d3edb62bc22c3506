// Arithmetic of two operands on double and integers. Integers wrap; what ONNX leaves open is as
// kernels/README.md says. A quotient by zero is 0 here: the caller reports it.
#include "kernels/cpu/typed_loops.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

template <class T>
T wrapped(Wrapping<T> value) {
  return static_cast<T>(value);
}
template <class T>
Wrapping<T> wide(T value) {
  return static_cast<Wrapping<T>>(value);
}

struct Add : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsReal<T>)
      return a + b;
    else
      return wrapped<T>(wide(a) + wide(b));
  }
};
struct Sub : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsReal<T>)
      return a - b;
    else
      return wrapped<T>(wide(a) - wide(b));
  }
};
struct Mul : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsReal<T>)
      return a * b;
    else
      return wrapped<T>(wide(a) * wide(b));
  }
};
struct Div : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsReal<T>) {
      return a / b;
    } else {
      if (b == 0) return 0;
      if (kIsSigned<T> && b == static_cast<T>(-1)) return wrapped<T>(0 - wide(a));
      return static_cast<T>(a / b);
    }
  }
};
// The sign of the dividend.
struct FMod : Bare {
  using Bare::Bare;
  float operator()(float a, float b) const { return __builtin_fmodf(a, b); }
  double operator()(double a, double b) const { return __builtin_fmod(a, b); }
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0 || (kIsSigned<T> && b == static_cast<T>(-1))) return 0;
    return static_cast<T>(a % b);
  }
};
// The sign of the divisor.
struct Mod : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T a, T b) const {
    const T rest = FMod(nullptr)(a, b);
    if constexpr (kIsReal<T>) {
      if (rest == 0) return static_cast<T>(__builtin_copysign(0.0, static_cast<double>(b)));
    }
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  }
};
struct Max : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T a, T b) const {  // NaN if either is
    return a > b || a != a ? a : b;
  }
};
struct Min : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};
struct Pow : Bare {
  using Bare::Bare;
  float operator()(float a, float b) const { return __builtin_powf(a, b); }
  double operator()(double a, double b) const { return __builtin_pow(a, b); }
  template <class T>
  T operator()(T a, T b) const {
    if (kIsSigned<T> && b < 0) {  // 1 / a^n, truncated
      if (a == 1) return 1;
      if (a == static_cast<T>(-1)) return b % 2 == 0 ? static_cast<T>(1) : a;
      return 0;
    }
    Wrapping<T> result = 1;
    Wrapping<T> base = wide(a);
    for (Wrapping<T> e = wide(b); e > 0; e >>= 1) {
      if ((e & 1) != 0) result *= base;
      base *= base;
    }
    return wrapped<T>(result);
  }
};
struct PRelu : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T x, T slope) const {
    return x < 0 ? Mul(nullptr)(x, slope) : x;
  }
};

struct BitAnd : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitOr : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitXor : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
template <class T>
bool is_place(T places) {
  return !(kIsSigned<T> && places < 0) && wide(places) < 8 * sizeof(T);
}
struct ShiftLeft : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T x, T places) const {
    const bool inside = is_place(places);
    return inside ? wrapped<T>(wide(x) << (inside ? wide(places) : 0)) : static_cast<T>(0);
  }
};
struct ShiftRight : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(T x, T places) const {
    const T filled = kIsSigned<T> && x < 0 ? static_cast<T>(-1) : static_cast<T>(0);
    const bool inside = is_place(places);
    return inside ? static_cast<T>(x >> (inside ? wide(places) : 0)) : filled;
  }
};

}  // namespace

TypedLoop typed_arithmetic(ElementwiseOp op, DType dtype) {
  switch (op) {
    case ElementwiseOp::kAdd: return number_zip<Add>(dtype);
    case ElementwiseOp::kSub: return number_zip<Sub>(dtype);
    case ElementwiseOp::kMul: return number_zip<Mul>(dtype);
    case ElementwiseOp::kDiv: return number_zip<Div>(dtype);
    case ElementwiseOp::kMod: return number_zip<Mod>(dtype);
    case ElementwiseOp::kFMod: return number_zip<FMod>(dtype);
    case ElementwiseOp::kMax: return number_zip<Max>(dtype);
    case ElementwiseOp::kMin: return number_zip<Min>(dtype);
    case ElementwiseOp::kPow: return number_zip<Pow>(dtype);
    case ElementwiseOp::kPRelu: return number_zip<PRelu>(dtype);
    case ElementwiseOp::kBitAnd: return integer_zip<BitAnd>(dtype);
    case ElementwiseOp::kBitOr: return integer_zip<BitOr>(dtype);
    case ElementwiseOp::kBitXor: return integer_zip<BitXor>(dtype);
    case ElementwiseOp::kShiftLeft: return integer_zip<ShiftLeft>(dtype);
    case ElementwiseOp::kShiftRight: return integer_zip<ShiftRight>(dtype);
    default: return nullptr;
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
