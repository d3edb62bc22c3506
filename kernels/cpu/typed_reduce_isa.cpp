// Reductions of doubles and integers. Several partial results are carried side by side, which the
// compiler keeps in vectors and which shortens chains of additions.
#include "kernels/cpu/typed_loops.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

// double for double; integers wrap in 64 bits, which the result keeps the low ones of.
template <class T>
struct SumOf {
  using Acc = std::int64_t;
};
template <>
struct SumOf<double> {
  using Acc = double;
};

template <class T>
struct SumBase {
  using Acc = typename SumOf<T>::Acc;
  static constexpr Acc kIdentity = 0;
  static Acc plus(Acc a, Acc b) {
    if constexpr (kIsReal<T>)
      return a + b;
    else
      return static_cast<Acc>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
  static Acc times(Acc a, Acc b) {
    if constexpr (kIsReal<T>)
      return a * b;
    else
      return static_cast<Acc>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
  static Acc join(Acc a, Acc b) { return plus(a, b); }
};
template <class T>
struct Sum : SumBase<T> {
  using typename SumBase<T>::Acc;
  static Acc add(Acc acc, T x) { return Sum::plus(acc, static_cast<Acc>(x)); }
};
template <class T>
struct SumSquare : SumBase<T> {
  using typename SumBase<T>::Acc;
  static Acc add(Acc acc, T x) {
    return SumSquare::plus(acc, SumSquare::times(static_cast<Acc>(x), static_cast<Acc>(x)));
  }
};
template <class T>
struct SumAbs : SumBase<T> {
  using typename SumBase<T>::Acc;
  static Acc add(Acc acc, T x) {
    const auto wide = static_cast<Acc>(x);
    if constexpr (kIsReal<T>)
      return acc + __builtin_fabs(x);
    else
      return SumAbs::plus(acc, kIsSigned<T> && x < 0 ? SumAbs::times(wide, -1) : wide);
  }
};
template <class T>
struct Prod : SumBase<T> {
  using typename SumBase<T>::Acc;
  static constexpr Acc kIdentity = 1;
  static Acc add(Acc acc, T x) { return Prod::times(acc, static_cast<Acc>(x)); }
  static Acc join(Acc a, Acc b) { return Prod::times(a, b); }
};

template <class T>
constexpr T least() {
  if constexpr (kIsReal<T>)
    return -__builtin_inf();
  else if constexpr (kIsSigned<T>)
    return static_cast<T>(Wrapping<T>{1} << (8 * sizeof(T) - 1));
  else
    return 0;
}
template <class T>
constexpr T greatest() {
  if constexpr (kIsReal<T>)
    return __builtin_inf();
  else
    return static_cast<T>(~least<T>());
}
template <class T>
struct Max {
  using Acc = T;
  static constexpr Acc kIdentity = least<T>();
  static Acc add(Acc acc, T x) { return acc > x || acc != acc ? acc : x; }  // NaN stays
  static Acc join(Acc a, Acc b) { return add(a, b); }
};
template <class T>
struct Min {
  using Acc = T;
  static constexpr Acc kIdentity = greatest<T>();
  static Acc add(Acc acc, T x) { return acc < x || acc != acc ? acc : x; }
  static Acc join(Acc a, Acc b) { return add(a, b); }
};

template <class Op, class T>
void run(const void* x, Int n, void* acc) {
  constexpr Int kParts = sizeof(T) == 8 ? 32 : 64;
  using Acc = typename Op::Acc;
  const auto* p = static_cast<const T*>(x);
  auto* total = static_cast<Acc*>(acc);
  if (n < kParts) {
    for (Int i = 0; i < n; ++i) *total = Op::add(*total, p[i]);
    return;
  }
  Acc parts[kParts];
  for (Int k = 0; k < kParts; ++k) parts[k] = Op::kIdentity;
  Int i = 0;
  for (; i + kParts <= n; i += kParts) {
    for (Int k = 0; k < kParts; ++k) parts[k] = Op::add(parts[k], p[i + k]);
  }
  for (Int k = 0; i + k < n; ++k) parts[k] = Op::add(parts[k], p[i + k]);
  for (Int half = kParts / 2; half > 0; half /= 2) {
    for (Int k = 0; k < half; ++k) parts[k] = Op::join(parts[k], parts[k + half]);
  }
  *total = Op::join(*total, parts[0]);
}

template <class Op, class T>
void rows_into(const void* x, Int rows, Int columns, Int stride, void* acc) {
  const auto* p = static_cast<const T*>(x);
  auto* total = static_cast<typename Op::Acc*>(acc);
  for (Int r = 0; r < rows; ++r, p += stride) {
    MEZZO_INDEPENDENT_LOOP
    for (Int c = 0; c < columns; ++c) total[c] = Op::add(total[c], p[c]);
  }
}

template <class Op>
void clear(void* acc, Int columns) {
  auto* total = static_cast<typename Op::Acc*>(acc);
  for (Int c = 0; c < columns; ++c) total[c] = Op::kIdentity;
}

template <class Op, class T>
TypedReduction functions(DType accumulator) {
  return {accumulator, run<Op, T>, rows_into<Op, T>, clear<Op>};
}

template <class T>
TypedReduction reduction_of(ReduceOp op, DType dtype) {
  const DType sum = kIsReal<T> ? DType::kFloat64 : DType::kInt64;
  switch (op) {
    case ReduceOp::kSum: return functions<Sum<T>, T>(sum);
    case ReduceOp::kSumSquare: return functions<SumSquare<T>, T>(sum);
    case ReduceOp::kSumAbs: return functions<SumAbs<T>, T>(sum);
    case ReduceOp::kProd: return functions<Prod<T>, T>(sum);
    case ReduceOp::kMax: return functions<Max<T>, T>(dtype);
    case ReduceOp::kMin: return functions<Min<T>, T>(dtype);
  }
  return {DType::kNone, nullptr, nullptr, nullptr};
}

}  // namespace

TypedReduction typed_reduction(ReduceOp op, DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return reduction_of<double>(op, dtype);
    case DType::kInt8: return reduction_of<std::int8_t>(op, dtype);
    case DType::kInt16: return reduction_of<std::int16_t>(op, dtype);
    case DType::kInt32: return reduction_of<std::int32_t>(op, dtype);
    case DType::kInt64: return reduction_of<std::int64_t>(op, dtype);
    case DType::kBool:
    case DType::kUInt8: return reduction_of<std::uint8_t>(op, dtype);
    case DType::kUInt16: return reduction_of<std::uint16_t>(op, dtype);
    case DType::kUInt32: return reduction_of<std::uint32_t>(op, dtype);
    case DType::kUInt64: return reduction_of<std::uint64_t>(op, dtype);
    default: return {DType::kNone, nullptr, nullptr, nullptr};
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
