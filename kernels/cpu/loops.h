// The loops that one instruction set's files offer to its table (table_isa.cpp). Meaning of each:
// see the member of the same name in isa.h.
#pragma once

#include "kernels/cpu/isa.h"

namespace mezzo::kernels::MEZZO_ISA {

using cpu::ArgRows;
using cpu::CastLoop;
using cpu::ElementwiseLoop;
using cpu::ElementwiseOp;
using cpu::Moments;
using cpu::ReduceOp;
using cpu::TypedLoop;
using cpu::TypedReduction;
using Int = std::int64_t;

// pack_isa.cpp
void unpack(DType dtype, const void* from, float* to, Int n);
void pack(DType dtype, const float* from, void* to, Int n);

// unary_isa.cpp, binary_isa.cpp, gradient_isa.cpp: null for an op of another file.
ElementwiseLoop unary_loop(ElementwiseOp op);
ElementwiseLoop binary_loop(ElementwiseOp op);
ElementwiseLoop gradient_loop(ElementwiseOp op);

// typed_arithmetic_isa.cpp, typed_unary_isa.cpp, typed_logic_isa.cpp: the same.
TypedLoop typed_arithmetic(ElementwiseOp op, DType dtype);
TypedLoop typed_unary(ElementwiseOp op, DType dtype);
TypedLoop typed_logic(ElementwiseOp op, DType dtype);

// cast_isa.cpp
CastLoop cast(DType from, DType to);
CastLoop cast_to_odd(DType from);

// reduce_isa.cpp
float reduce_run(ReduceOp op, const float* x, Int n);
void reduce_rows(ReduceOp op, const float* x, Int rows, Int columns, Int stride, float* acc);

// typed_reduce_isa.cpp
TypedReduction typed_reduction(ReduceOp op, DType dtype);

// arg_isa.cpp
ArgRows arg_rows(DType dtype, bool least, bool last);

// softmax_isa.cpp
void softmax(const float* x, float* y, Int n, Int width, bool log);
void softmax_grad(float* dy, const float* y, Int n, Int width, bool log);

// layer_norm_isa.cpp
Moments moments(const float* x, Int n);
void normalize(const float* x, const float* scale, const float* bias, float mean, float inv_std,
               float* y, Int n);
void layer_norm_grad(const float* dy, const float* x, const float* scale, float mean, float inv_std,
                     float* dx, float* dscale, float* dbias, Int n);

// batch_norm_isa.cpp
void affine_run(const float* x, float mean, float a, float b, float* y, Int n);
void affine_rows(const float* x, const float* mean, const float* a, const float* b, float* y,
                 Int rows, Int columns);
void grad_sums_run(const float* dy, const float* x, float mean, Int n, float* sum_dy,
                   float* sum_dy_x);
void grad_sums_rows(const float* dy, const float* x, const float* mean, Int rows, Int columns,
                    float* sum_dy, float* sum_dy_x);
void grad_affine_run(const float* dy, const float* x, float mean, float a, float b, float c,
                     float* dx, Int n);
void grad_affine_rows(const float* dy, const float* x, const float* mean, const float* a,
                      const float* b, const float* c, float* dx, Int rows, Int columns);
void moments_rows(const float* x, Int rows, Int columns, float* mean, float* m2);

// transpose_isa.cpp
void transpose(int elem_bytes, const void* from, Int from_stride, void* to, Int to_stride, Int rows,
               Int columns);

// resample_isa.cpp
void blend_rows(const float* const* rows, const float* weights, Int taps, float* y, Int n);
void blend_taps(const float* x, const std::int32_t* indices, const float* weights, Int taps,
                float* y, Int n);

// multiply_isa.cpp
Int panel_columns(cpu::ProductKind kind);
void pack_panels(cpu::ProductKind kind, const void* b, Int k_stride, Int j_stride, Int columns,
                 Int depth, void* to);
void multiply(cpu::ProductKind kind, const void* a, Int a_stride, const void* panels, void* c,
              Int c_stride, Int rows, Int columns, Int depth);
void widen_bytes(bool is_signed, const void* from, std::int32_t zero, std::int16_t* to, Int n);
void blend_sorted_taps(const float* x, Int x_size, const std::int32_t* indices,
                       const float* weights, Int taps, float* y, Int n);

// misc_isa.cpp
void max_of_rows(const float* const* rows, Int count, float* y, Int n);
void max_with_place(const float* x, std::int32_t at, std::int32_t step, float* best,
                    std::int32_t* place, Int n);
void take_every(const float* x, Int stride, float* to, Int n);
void dropout_mask(std::uint64_t seed, std::uint64_t step, Int first, std::uint64_t threshold,
                  std::uint8_t* mask, Int n);

}  // namespace mezzo::kernels::MEZZO_ISA
