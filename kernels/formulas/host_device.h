// Marks functions that the CPU's and the GPU's kernels share: one formula, written once.
//
// Such a function uses nothing but its arguments, <cmath> and other functions of this kind. It is
// compiled by the host's compiler and by nvcc, both without contraction of products and sums
// (-ffp-contract=off, --fmad=false) in files whose bits are promised.
#pragma once

#ifdef __CUDACC__
#define MEZZO_HD __host__ __device__
#else
#define MEZZO_HD
#endif

// For formulas of one element, in loops that the host's compiler is to vectorise.
#define MEZZO_HD_INLINE MEZZO_HD __attribute__((always_inline)) inline
