// Sums, sums of squares, products, greatest and least numbers; NaN is passed on by all.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/vec.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

// add: takes one more element; join: two partial results.
struct Sum {
  static constexpr float kIdentity = 0.0F;
  static F add(F acc, F x) { return acc + x; }
  static F join(F a, F b) { return a + b; }
};
struct SumSquare {
  static constexpr float kIdentity = 0.0F;
  static F add(F acc, F x) { return fma(x, x, acc); }
  static F join(F a, F b) { return a + b; }
};
struct SumAbs {
  static constexpr float kIdentity = 0.0F;
  static F add(F acc, F x) { return acc + abs(x); }
  static F join(F a, F b) { return a + b; }
};
struct Prod {
  static constexpr float kIdentity = 1.0F;
  static F add(F acc, F x) { return acc * x; }
  static F join(F a, F b) { return a * b; }
};
struct Max {
  static constexpr float kIdentity = -__builtin_inff();
  static F add(F acc, F x) { return max_nan(acc, x); }
  static F join(F a, F b) { return max_nan(a, b); }
};
struct Min {
  static constexpr float kIdentity = __builtin_inff();
  static F add(F acc, F x) { return min_nan(acc, x); }
  static F join(F a, F b) { return min_nan(a, b); }
};

template <class Op>
float run(const float* x, Int n) {
  const F identity = set1(Op::kIdentity);
  F acc[4] = {identity, identity, identity, identity};
  Int i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int k = 0; k < 4; ++k) acc[k] = Op::add(acc[k], load(x + i + k * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) acc[0] = Op::add(acc[0], load(x + i));
  if (i < n) {
    acc[1] = Op::add(acc[1], load_n_or(x + i, static_cast<int>(n - i), identity));
  }
  const F joined = Op::join(Op::join(acc[0], acc[1]), Op::join(acc[2], acc[3]));
  return fold_lanes(joined, [](F a, F b) { return Op::join(a, b); });
}

// Four rows at a time: one pass over the rows in memory order, and shorter chains of additions.
template <class Op>
void rows_into(const float* x, Int rows, Int columns, Int stride, float* acc) {
  const F identity = set1(Op::kIdentity);
  Int r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* p = x + r * stride;
    Int c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      const F ab = Op::add(Op::add(identity, load(p + c)), load(p + stride + c));
      const F cd = Op::add(Op::add(identity, load(p + 2 * stride + c)), load(p + 3 * stride + c));
      store(acc + c, Op::join(load(acc + c), Op::join(ab, cd)));
    }
    if (const int rest = static_cast<int>(columns - c); rest > 0) {
      const F ab = Op::add(Op::add(identity, load_n(p + c, rest)), load_n(p + stride + c, rest));
      const F cd = Op::add(Op::add(identity, load_n(p + 2 * stride + c, rest)),
                           load_n(p + 3 * stride + c, rest));
      store_n(acc + c, Op::join(load_n(acc + c, rest), Op::join(ab, cd)), rest);
    }
  }
  for (; r < rows; ++r) {
    const float* p = x + r * stride;
    Int c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      store(acc + c, Op::add(load(acc + c), load(p + c)));
    }
    if (const int rest = static_cast<int>(columns - c); rest > 0) {
      store_n(acc + c, Op::add(load_n(acc + c, rest), load_n(p + c, rest)), rest);
    }
  }
}

}  // namespace

float reduce_run(ReduceOp op, const float* x, Int n) {
  switch (op) {
    case ReduceOp::kSum: return run<Sum>(x, n);
    case ReduceOp::kSumSquare: return run<SumSquare>(x, n);
    case ReduceOp::kSumAbs: return run<SumAbs>(x, n);
    case ReduceOp::kMax: return run<Max>(x, n);
    case ReduceOp::kMin: return run<Min>(x, n);
    case ReduceOp::kProd: return run<Prod>(x, n);
  }
  return 0.0F;
}

void reduce_rows(ReduceOp op, const float* x, Int rows, Int columns, Int stride, float* acc) {
  switch (op) {
    case ReduceOp::kSum: return rows_into<Sum>(x, rows, columns, stride, acc);
    case ReduceOp::kSumSquare: return rows_into<SumSquare>(x, rows, columns, stride, acc);
    case ReduceOp::kSumAbs: return rows_into<SumAbs>(x, rows, columns, stride, acc);
    case ReduceOp::kMax: return rows_into<Max>(x, rows, columns, stride, acc);
    case ReduceOp::kMin: return rows_into<Min>(x, rows, columns, stride, acc);
    case ReduceOp::kProd: return rows_into<Prod>(x, rows, columns, stride, acc);
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
