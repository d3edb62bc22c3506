// From an operation on numbers to a loop over runs, for the types that vec.h has no vectors of:
// double, integers and truth values (and float for functions without a vector form). The compiler
// makes vectors of these loops.
//
// An operation is a struct made from the parameters with an operator() for each type it takes. It
// must not contain branches on data where it can do without, or no vectors come out.
#pragma once

#include "kernels/cpu/independent_loop.h"
#include "kernels/cpu/loops.h"

namespace mezzo::kernels::MEZZO_ISA {

// One byte that is true unless 0.
struct Truth {
  std::uint8_t bits;
};

template <class T>
constexpr bool kIsReal = false;
template <>
inline constexpr bool kIsReal<float> = true;
template <>
inline constexpr bool kIsReal<double> = true;
template <class T>
constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);

// Wide enough that no arithmetic is promoted to int, whose overflow is undefined.
template <int kBytes>
struct UnsignedOf {
  using Type = std::uint32_t;
};
template <>
struct UnsignedOf<8> {
  using Type = std::uint64_t;
};
template <class T>
using Wrapping = typename UnsignedOf<sizeof(T)>::Type;

// Operations without parameters.
struct Bare {
  explicit Bare(const double*) {}
};

// y may be any of the x: every element is read before the one in its place is written.
template <class Op, class X, class Y>
void typed1(const void* const* x, void* y, Int n, const double* parameters) {
  const Op op(parameters);
  const auto* a = static_cast<const X*>(x[0]);
  auto* to = static_cast<Y*>(y);
  MEZZO_INDEPENDENT_LOOP
  for (Int i = 0; i < n; ++i) to[i] = op(a[i]);
}

template <class Op, class X, class Y>
void typed2(const void* const* x, void* y, Int n, const double* parameters) {
  const Op op(parameters);
  const auto* a = static_cast<const X*>(x[0]);
  const auto* b = static_cast<const X*>(x[1]);
  auto* to = static_cast<Y*>(y);
  MEZZO_INDEPENDENT_LOOP
  for (Int i = 0; i < n; ++i) to[i] = op(a[i], b[i]);
}

template <class Op, class A, class B, class C, class Y>
void typed3(const void* const* x, void* y, Int n, const double* parameters) {
  const Op op(parameters);
  const auto* a = static_cast<const A*>(x[0]);
  const auto* b = static_cast<const B*>(x[1]);
  const auto* c = static_cast<const C*>(x[2]);
  auto* to = static_cast<Y*>(y);
  MEZZO_INDEPENDENT_LOOP
  for (Int i = 0; i < n; ++i) to[i] = op(a[i], b[i], c[i]);
}

template <class T>
struct Tag {
  using Type = T;
};

// give(Tag<T>()) for the integer type of that dtype; null for others.
template <class Give>
TypedLoop for_integers(DType dtype, Give give) {
  switch (dtype) {
    case DType::kInt8: return give(Tag<std::int8_t>());
    case DType::kInt16: return give(Tag<std::int16_t>());
    case DType::kInt32: return give(Tag<std::int32_t>());
    case DType::kInt64: return give(Tag<std::int64_t>());
    case DType::kUInt8: return give(Tag<std::uint8_t>());
    case DType::kUInt16: return give(Tag<std::uint16_t>());
    case DType::kUInt32: return give(Tag<std::uint32_t>());
    case DType::kUInt64: return give(Tag<std::uint64_t>());
    default: return nullptr;
  }
}
template <class Give>
TypedLoop for_reals(DType dtype, Give give) {
  if (dtype == DType::kFloat64) return give(Tag<double>());
  if (dtype == DType::kFloat32) return give(Tag<float>());
  return nullptr;
}
template <class Give>
TypedLoop for_numbers(DType dtype, Give give) {
  if (const TypedLoop loop = for_reals(dtype, give)) return loop;
  return for_integers(dtype, give);
}

// The usual shapes of loops.
template <class Op>
TypedLoop real_map(DType dtype) {
  return for_reals(dtype, [](auto tag) -> TypedLoop {
    using T = typename decltype(tag)::Type;
    return typed1<Op, T, T>;
  });
}
template <class Op>
TypedLoop integer_map(DType dtype) {
  return for_integers(dtype, [](auto tag) -> TypedLoop {
    using T = typename decltype(tag)::Type;
    return typed1<Op, T, T>;
  });
}
template <class Op>
TypedLoop number_map(DType dtype) {
  return for_numbers(dtype, [](auto tag) -> TypedLoop {
    using T = typename decltype(tag)::Type;
    return typed1<Op, T, T>;
  });
}
template <class Op>
TypedLoop integer_zip(DType dtype) {
  return for_integers(dtype, [](auto tag) -> TypedLoop {
    using T = typename decltype(tag)::Type;
    return typed2<Op, T, T>;
  });
}
template <class Op>
TypedLoop number_zip(DType dtype) {
  return for_numbers(dtype, [](auto tag) -> TypedLoop {
    using T = typename decltype(tag)::Type;
    return typed2<Op, T, T>;
  });
}

}  // namespace mezzo::kernels::MEZZO_ISA
