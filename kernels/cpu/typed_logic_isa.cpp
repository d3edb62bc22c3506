// Comparisons, truth values, tests and choices on every type but the 16-bit floats.
#include "kernels/cpu/typed_loops.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

Truth truth(bool holds) { return {static_cast<std::uint8_t>(holds)}; }
bool is_true(Truth t) { return t.bits != 0; }

struct Equal : Bare {
  using Bare::Bare;
  template <class T>
  Truth operator()(T a, T b) const {
    return truth(a == b);
  }
};
struct Less : Bare {
  using Bare::Bare;
  template <class T>
  Truth operator()(T a, T b) const {
    return truth(a < b);
  }
};
struct Greater : Bare {
  using Bare::Bare;
  template <class T>
  Truth operator()(T a, T b) const {
    return truth(a > b);
  }
};
struct LessOrEqual : Bare {
  using Bare::Bare;
  template <class T>
  Truth operator()(T a, T b) const {
    return truth(a <= b);
  }
};
struct GreaterOrEqual : Bare {
  using Bare::Bare;
  template <class T>
  Truth operator()(T a, T b) const {
    return truth(a >= b);
  }
};

struct And : Bare {
  using Bare::Bare;
  Truth operator()(Truth a, Truth b) const { return truth(is_true(a) & is_true(b)); }
};
struct Or : Bare {
  using Bare::Bare;
  Truth operator()(Truth a, Truth b) const { return truth(is_true(a) | is_true(b)); }
};
struct Xor : Bare {
  using Bare::Bare;
  Truth operator()(Truth a, Truth b) const { return truth(is_true(a) != is_true(b)); }
};
struct Same : Bare {
  using Bare::Bare;
  Truth operator()(Truth a, Truth b) const { return truth(is_true(a) == is_true(b)); }
};
struct Not : Bare {
  using Bare::Bare;
  Truth operator()(Truth a) const { return truth(!is_true(a)); }
};

struct IsNan : Bare {
  using Bare::Bare;
  template <class T>
  Truth operator()(T x) const {
    return truth(x != x);
  }
};
struct IsInf {  // parameters: does -infinity count, does +infinity
  explicit IsInf(const double* parameters)
      : negative(parameters[0] != 0.0), positive(parameters[1] != 0.0) {}
  template <class T>
  Truth operator()(T x) const {
    const auto infinity = static_cast<T>(__builtin_inf());
    return truth((negative & (x == -infinity)) | (positive & (x == infinity)));
  }
  bool negative;
  bool positive;
};

struct Where : Bare {
  using Bare::Bare;
  template <class T>
  T operator()(Truth condition, T a, T b) const {
    return is_true(condition) ? a : b;
  }
};

template <class Op>
TypedLoop comparison(DType dtype) {
  return for_numbers(
      dtype, [](auto tag) -> TypedLoop { return typed2<Op, typename decltype(tag)::Type, Truth>; });
}
template <class Op>
TypedLoop test(DType dtype) {
  return for_reals(
      dtype, [](auto tag) -> TypedLoop { return typed1<Op, typename decltype(tag)::Type, Truth>; });
}

// Bits are moved: one loop per size, and one for double, which other floats become.
TypedLoop where(DType dtype) {
  return for_numbers(dtype, [](auto tag) -> TypedLoop {
    using T = typename decltype(tag)::Type;
    return typed3<Where, Truth, T, T, T>;
  });
}

}  // namespace

TypedLoop typed_logic(ElementwiseOp op, DType dtype) {
  const bool truths = dtype == DType::kBool;
  switch (op) {
    case ElementwiseOp::kEqual:
      return truths ? typed2<Same, Truth, Truth> : comparison<Equal>(dtype);
    case ElementwiseOp::kLess: return comparison<Less>(dtype);
    case ElementwiseOp::kGreater: return comparison<Greater>(dtype);
    case ElementwiseOp::kLessOrEqual: return comparison<LessOrEqual>(dtype);
    case ElementwiseOp::kGreaterOrEqual: return comparison<GreaterOrEqual>(dtype);
    case ElementwiseOp::kAnd: return truths ? typed2<And, Truth, Truth> : nullptr;
    case ElementwiseOp::kOr: return truths ? typed2<Or, Truth, Truth> : nullptr;
    case ElementwiseOp::kXor: return truths ? typed2<Xor, Truth, Truth> : nullptr;
    case ElementwiseOp::kNot: return truths ? typed1<Not, Truth, Truth> : nullptr;
    case ElementwiseOp::kIsNan: return test<IsNan>(dtype);
    case ElementwiseOp::kIsInf: return test<IsInf>(dtype);
    case ElementwiseOp::kWhere: return where(dtype);
    default: return nullptr;
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
