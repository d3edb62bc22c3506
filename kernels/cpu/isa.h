// The vectorised inner loops, one table of them per instruction set.
//
// The loops work on plain runs of memory on one thread and know nothing of shapes: the plain files
// of this folder split a request into runs, choose threads and call the loops. Loops take float32;
// `unpack` and `pack` bring other dtypes in and out, a block at a time, so that a block stays in
// the first-level cache. n may be 0 everywhere. Overlap of operands is allowed only where a
// comment says so.
#pragma once

#include <cstdint>
#include <string_view>

#include "compiler/support/dtype.h"

namespace mezzo::kernels::cpu {

// Elements per block: 2 KiB as float32, so that five operands fit into 48 KiB with room to spare.
inline constexpr std::int64_t kBlock = 512;

enum class ElementwiseOp : std::uint8_t {
  // x -> y
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
  kHardSigmoid,
  kHardSwish,
  kLeakyRelu,
  kElu,
  kSin,
  kCos,
  kGelu,
  kGeluTanh,
  kSwish,
  kScale,
  kFloor,
  kCeil,
  kRound,
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
  kSelu,
  kCelu,
  kMish,
  kSoftsign,
  kThresholdedRelu,
  kShrink,
  kIsNan,
  kIsInf,
  kNot,
  kBitNot,
  // a, b -> y
  kAdd,
  kSub,
  kMul,
  kDiv,
  kPow,
  kMax,
  kMin,
  kEqual,
  kLess,
  kGreater,
  kLessOrEqual,
  kGreaterOrEqual,
  kAnd,
  kOr,
  kXor,
  kMod,
  kFMod,
  kPRelu,
  kBitAnd,
  kBitOr,
  kBitXor,
  kShiftLeft,
  kShiftRight,
  // three operands
  kWhere,
  kClip,
  kQuantize,    // x, scale, zero; parameters: the ends of the result
  kDequantize,  // x, scale, zero
  kPowGrad,
  // dy, x or y -> dx
  kReluGrad,
  kSigmoidGrad,
  kTanhGrad,
  kGeluGrad,
  kGeluTanhGrad,
  kSwishGrad,
  kErfGrad,
  kSoftplusGrad,
  kHardSwishGrad,
  kHardSigmoidGrad,
  kLeakyReluGrad,
  kEluGrad,
  kLogGrad,
  kAbsGrad,
  kSinGrad,
  kCosGrad,
  kExpGrad,
  kSqrtGrad,
  kReciprocalGrad,
  kClipGrad,
  kDropoutGrad,
};

// y[i] = op(x[0][i], x[1][i], ...). y may be any of the x. `parameters`: alpha, beta.
using ElementwiseLoop = void (*)(const float* const* x, float* y, std::int64_t n,
                                 const float* parameters);

// The same on elements of any type: x and y point to what the operation takes and gives.
using TypedLoop = void (*)(const void* const* x, void* y, std::int64_t n, const double* parameters);

// to[i] = from[i] in another type.
using CastLoop = void (*)(const void* from, void* to, std::int64_t n);

// best[i] and place[i] become x[i] and `row` where x[i] is beyond best[i], NaN beyond every number.
using ArgRows = void (*)(const void* x, std::int64_t row, void* best, std::int64_t* place,
                         std::int64_t n);

enum class ReduceOp : std::uint8_t { kSum, kSumSquare, kSumAbs, kMax, kMin, kProd };

// Reductions of one type. Sums and products are accumulated in double for double and in int64,
// wrapping, for integers; greatest and least elements in their own type.
struct TypedReduction {
  DType accumulator;
  // acc = op(acc, x[0], .., x[n - 1])
  void (*run)(const void* x, std::int64_t n, void* acc);
  // acc[c] = op(acc[c], x[r * stride + c])
  void (*rows)(const void* x, std::int64_t rows, std::int64_t columns, std::int64_t stride,
               void* acc);
  // acc[c] = what leaves every number as it is
  void (*clear)(void* acc, std::int64_t columns);
};

// Sums for one channel or row; see batch_norm.cpp.
struct Moments {
  float mean;
  float m2;  // sum of (x - mean)^2
};

// Operands and sums of a product of matrices.
enum class ProductKind : std::uint8_t {
  kFloat32,
  kFloat64,
  kInt32,  // int32 or uint32, wraps
  kInt64,  // int64 or uint64, wraps
  kPairs,  // int16 operands of at most 2^15 - 1 in size, int32 sums, which wrap
};

struct Isa {
  std::string_view name;  // "cpu:avx512"

  // float32, float16, bfloat16, bool (as 0 and 1); pack rounds to nearest even.
  void (*unpack)(DType dtype, const void* from, float* to, std::int64_t n);
  void (*pack)(DType dtype, const float* from, void* to, std::int64_t n);

  ElementwiseLoop (*elementwise)(ElementwiseOp op);  // null where `typed` alone has it
  // The loop for operands of `dtype`, which gives that type, or bool if it compares or tests; the
  // condition of kWhere is bool. Null where there is none.
  TypedLoop (*typed)(ElementwiseOp op, DType dtype);

  // By the rules of Cast; null if one is a 16-bit float.
  CastLoop (*cast)(DType from, DType to);
  // To float32 rounded so that `pack` then gives the 16-bit float nearest to the element: inexact
  // numbers get a set last bit.
  CastLoop (*cast_to_odd)(DType from);

  // Null functions where there is none (bool: as uint8).
  TypedReduction (*typed_reduction)(ReduceOp op, DType dtype);

  // Greatest or least; of equal ones the first or the last. Null for 16-bit floats and bool.
  ArgRows (*arg_rows)(DType dtype, bool least, bool last);

  // Reduction of n numbers, and acc[c] = op(acc[c], x[r * stride + c]). Partial results of
  // kSumSquare and kSumAbs are joined by kSum.
  float (*reduce_run)(ReduceOp op, const float* x, std::int64_t n);
  void (*reduce_rows)(ReduceOp op, const float* x, std::int64_t rows, std::int64_t columns,
                      std::int64_t stride, float* acc);

  // Dense tiles [n][width], along n. y may be x.
  void (*softmax)(const float* x, float* y, std::int64_t n, std::int64_t width, bool log);
  // dx over dy.
  void (*softmax_grad)(float* dy, const float* y, std::int64_t n, std::int64_t width, bool log);

  // One row of n. y may be x; bias may be null.
  Moments (*moments)(const float* x, std::int64_t n);
  void (*normalize)(const float* x, const float* scale, const float* bias, float mean,
                    float inv_std, float* y, std::int64_t n);
  // dx may be dy; dscale += dy (x - mean) inv_std, dbias += dy.
  void (*layer_norm_grad)(const float* dy, const float* x, const float* scale, float mean,
                          float inv_std, float* dx, float* dscale, float* dbias, std::int64_t n);

  // y = (x - mean) a + b with one set of numbers. y may be x.
  void (*affine_run)(const float* x, float mean, float a, float b, float* y, std::int64_t n);
  // The same with a set per column; x[rows][columns] dense.
  void (*affine_rows)(const float* x, const float* mean, const float* a, const float* b, float* y,
                      std::int64_t rows, std::int64_t columns);
  // sum_dy += dy, sum_dy_x += dy (x - mean).
  void (*grad_sums_run)(const float* dy, const float* x, float mean, std::int64_t n, float* sum_dy,
                        float* sum_dy_x);
  void (*grad_sums_rows)(const float* dy, const float* x, const float* mean, std::int64_t rows,
                         std::int64_t columns, float* sum_dy, float* sum_dy_x);
  // dx = a dy + b (x - mean) + c. dx may be dy.
  void (*grad_affine_run)(const float* dy, const float* x, float mean, float a, float b, float c,
                          float* dx, std::int64_t n);
  void (*grad_affine_rows)(const float* dy, const float* x, const float* mean, const float* a,
                           const float* b, const float* c, float* dx, std::int64_t rows,
                           std::int64_t columns);
  // mean[c], m2[c] of x[rows][columns], rows > 0.
  void (*moments_rows)(const float* x, std::int64_t rows, std::int64_t columns, float* mean,
                       float* m2);

  // to[c][r] = from[r][c] for r < rows, c < columns; strides and elements in units of elem_bytes,
  // which is 1, 2, 4 or 8.
  void (*transpose)(int elem_bytes, const void* from, std::int64_t from_stride, void* to,
                    std::int64_t to_stride, std::int64_t rows, std::int64_t columns);

  // y[i] = max of rows[0][i] .. rows[count - 1][i], NaN where one of them is. count > 0; y may be
  // one of the rows.
  void (*max_of_rows)(const float* const* rows, std::int64_t count, float* y, std::int64_t n);
  // best[i] and place[i] become x[i] and at + i step where place[i] is negative (nothing seen
  // yet), where x[i] is greater than best[i], and where x[i] is NaN and best[i] is not.
  void (*max_with_place)(const float* x, std::int32_t at, std::int32_t step, float* best,
                         std::int32_t* place, std::int64_t n);
  // y[i] = sum over t of weights[t] rows[t][i].
  void (*blend_rows)(const float* const* rows, const float* weights, std::int64_t taps, float* y,
                     std::int64_t n);
  // y[i] = sum over t of weights[t * n + i] x[indices[t * n + i]]; where the weight is 0, x counts
  // as 0 whatever it holds.
  void (*blend_taps)(const float* x, const std::int32_t* indices, const float* weights,
                     std::int64_t taps, float* y, std::int64_t n);
  // The same; indices of one tap never fall and are below x_size.
  void (*blend_sorted_taps)(const float* x, std::int64_t x_size, const std::int32_t* indices,
                            const float* weights, std::int64_t taps, float* y, std::int64_t n);
  // to[i] = x[i * stride]
  void (*take_every)(const float* x, std::int64_t stride, float* to, std::int64_t n);

  // c[i][j] = sum over k of a[i][k] b[k][j]. b lies in panels of panel_columns() columns each, of
  // `columns` rounded up to them times `depth` elements (kPairs: depth rounded up to 2), aligned
  // to 64 bytes. kPairs reads pairs of a, and so one element behind rows of odd depth. The bits of
  // an element depend on its row and column alone.
  std::int64_t (*panel_columns)(ProductKind kind);
  void (*pack_panels)(ProductKind kind, const void* b, std::int64_t k_stride, std::int64_t j_stride,
                      std::int64_t columns, std::int64_t depth, void* to);
  void (*multiply)(ProductKind kind, const void* a, std::int64_t a_stride, const void* panels,
                   void* c, std::int64_t c_stride, std::int64_t rows, std::int64_t columns,
                   std::int64_t depth);
  // to[i] = from[i] - zero, from int8 or uint8.
  void (*widen_bytes)(bool is_signed, const void* from, std::int32_t zero, std::int16_t* to,
                      std::int64_t n);

  // mask[i] = 1 where element first + i is kept (philox.h), else 0. REQUIRES: first % 4 == 0.
  void (*dropout_mask)(std::uint64_t seed, std::uint64_t step, std::int64_t first,
                       std::uint64_t threshold, std::uint8_t* mask, std::int64_t n);
};

// The table for this processor; null without AVX2, FMA and F16C.
const Isa* selected_isa();

// For tests: until the next call, selected_isa() is the named table ("avx2", "avx512"), or the
// best one for "". False, and no change, if the processor cannot run it.
bool select_isa(std::string_view name);

}  // namespace mezzo::kernels::cpu

namespace mezzo::kernels::avx2 {
const cpu::Isa& isa_table();
}
namespace mezzo::kernels::avx512 {
const cpu::Isa& isa_table();
}
