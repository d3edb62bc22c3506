// One vector of floats, for the files that are compiled once per instruction set (*_isa.cpp).
//
// F: kLanes floats, I: kLanes int32, M: one truth value per lane. Every function is always inlined
// and lives in the instruction set's own namespace: code that needs AVX-512 can then never be
// merged by the linker with a function of the same name that must run on every processor. For the
// same reason *_isa.cpp files include no header of the standard library that defines functions.
#pragma once

#include <immintrin.h>

#include <cstdint>

#ifndef MEZZO_ISA
#error "vec.h is for files compiled with -DMEZZO_ISA=avx2 or -DMEZZO_ISA=avx512"
#endif
#define MEZZO_VEC [[gnu::always_inline]] static inline

namespace mezzo::kernels::MEZZO_ISA {

#if defined(__AVX512F__)

constexpr int kLanes = 16;
struct F {
  __m512 v;
};
struct I {
  __m512i v;
};
struct M {
  __mmask16 v;
};

MEZZO_VEC __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1U << n) - 1U); }
MEZZO_VEC F load(const float* p) { return {_mm512_loadu_ps(p)}; }
MEZZO_VEC void store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
// The first n <= kLanes floats; the other lanes are 0 and not stored.
MEZZO_VEC F load_n(const float* p, int n) {
  return n == kLanes ? load(p) : F{_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
MEZZO_VEC void store_n(float* p, F a, int n) {
  if (n == kLanes) return store(p, a);
  _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
MEZZO_VEC F set1(float a) { return {_mm512_set1_ps(a)}; }
MEZZO_VEC I iset1(std::int32_t a) { return {_mm512_set1_epi32(a)}; }
MEZZO_VEC I iload(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
MEZZO_VEC void istore(std::int32_t* p, I a) { _mm512_storeu_si512(p, a.v); }
MEZZO_VEC F operator+(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
MEZZO_VEC F operator-(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
MEZZO_VEC F operator*(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
MEZZO_VEC F operator/(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
MEZZO_VEC F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }    // a b + c
MEZZO_VEC F fnma(F a, F b, F c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a b
MEZZO_VEC F sqrt(F a) { return {_mm512_sqrt_ps(a.v)}; }
// The second operand where either is NaN, as the instructions have it.
MEZZO_VEC F min_or_second(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
MEZZO_VEC F max_or_second(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
MEZZO_VEC F round(F a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
MEZZO_VEC F floor(F a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}
MEZZO_VEC F ceil(F a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)};
}
MEZZO_VEC I to_int(F a) { return {_mm512_cvtps_epi32(a.v)}; }
MEZZO_VEC F to_float(I a) { return {_mm512_cvtepi32_ps(a.v)}; }
MEZZO_VEC I bits(F a) { return {_mm512_castps_si512(a.v)}; }
MEZZO_VEC F from_bits(I a) { return {_mm512_castsi512_ps(a.v)}; }
MEZZO_VEC I operator+(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
MEZZO_VEC I operator-(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
MEZZO_VEC I operator&(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
MEZZO_VEC I operator|(I a, I b) { return {_mm512_or_si512(a.v, b.v)}; }
MEZZO_VEC I operator^(I a, I b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int kBits>
MEZZO_VEC I shift_left(I a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
MEZZO_VEC I shift_right(I a) {  // with the sign
  return {_mm512_srai_epi32(a.v, kBits)};
}
template <int kBits>
MEZZO_VEC I shift_right_zeros(I a) {
  return {_mm512_srli_epi32(a.v, kBits)};
}
MEZZO_VEC M operator<(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
MEZZO_VEC M operator<=(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
MEZZO_VEC M operator==(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
MEZZO_VEC M operator!=(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)}; }
MEZZO_VEC M is_nan(F a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
MEZZO_VEC M operator==(I a, I b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
MEZZO_VEC M operator&(M a, M b) { return {static_cast<__mmask16>(a.v & b.v)}; }
MEZZO_VEC M operator|(M a, M b) { return {static_cast<__mmask16>(a.v | b.v)}; }
MEZZO_VEC bool any(M a) { return a.v != 0; }
MEZZO_VEC bool all(M a) { return a.v == 0xffffU; }
MEZZO_VEC F select(M m, F a, F b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }
MEZZO_VEC I select(M m, I a, I b) { return {_mm512_mask_blend_epi32(m.v, b.v, a.v)}; }
// Lane i gets lane i ^ kStep.
template <int kStep>
MEZZO_VEC F swap_lanes(F a) {
  if constexpr (kStep == 8) return {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)};
  if constexpr (kStep == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xb1)};
  if constexpr (kStep == 2) return {_mm512_permute_ps(a.v, 0x4e)};
  if constexpr (kStep == 1) return {_mm512_permute_ps(a.v, 0xb1)};
}
MEZZO_VEC float first_lane(F a) { return _mm512_cvtss_f32(a.v); }
// a 2^k for an integral k, rounded once.
MEZZO_VEC F scale_by_power(F a, F k) { return {_mm512_scalef_ps(a.v, k.v)}; }

#else

constexpr int kLanes = 8;
struct F {
  __m256 v;
};
struct I {
  __m256i v;
};
struct M {
  __m256 v;
};

MEZZO_VEC __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
MEZZO_VEC F load(const float* p) { return {_mm256_loadu_ps(p)}; }
MEZZO_VEC void store(float* p, F a) { _mm256_storeu_ps(p, a.v); }
MEZZO_VEC F load_n(const float* p, int n) {
  return n == kLanes ? load(p) : F{_mm256_maskload_ps(p, first_lanes(n))};
}
MEZZO_VEC void store_n(float* p, F a, int n) {
  if (n == kLanes) return store(p, a);
  _mm256_maskstore_ps(p, first_lanes(n), a.v);
}
MEZZO_VEC F set1(float a) { return {_mm256_set1_ps(a)}; }
MEZZO_VEC I iset1(std::int32_t a) { return {_mm256_set1_epi32(a)}; }
MEZZO_VEC I iload(const std::int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
MEZZO_VEC void istore(std::int32_t* p, I a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v);
}
MEZZO_VEC F operator+(F a, F b) { return {_mm256_add_ps(a.v, b.v)}; }
MEZZO_VEC F operator-(F a, F b) { return {_mm256_sub_ps(a.v, b.v)}; }
MEZZO_VEC F operator*(F a, F b) { return {_mm256_mul_ps(a.v, b.v)}; }
MEZZO_VEC F operator/(F a, F b) { return {_mm256_div_ps(a.v, b.v)}; }
MEZZO_VEC F fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
MEZZO_VEC F fnma(F a, F b, F c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
MEZZO_VEC F sqrt(F a) { return {_mm256_sqrt_ps(a.v)}; }
MEZZO_VEC F min_or_second(F a, F b) { return {_mm256_min_ps(a.v, b.v)}; }
MEZZO_VEC F max_or_second(F a, F b) { return {_mm256_max_ps(a.v, b.v)}; }
MEZZO_VEC F round(F a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
MEZZO_VEC F floor(F a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
MEZZO_VEC F ceil(F a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
MEZZO_VEC I to_int(F a) { return {_mm256_cvtps_epi32(a.v)}; }
MEZZO_VEC F to_float(I a) { return {_mm256_cvtepi32_ps(a.v)}; }
MEZZO_VEC I bits(F a) { return {_mm256_castps_si256(a.v)}; }
MEZZO_VEC F from_bits(I a) { return {_mm256_castsi256_ps(a.v)}; }
MEZZO_VEC I operator+(I a, I b) { return {_mm256_add_epi32(a.v, b.v)}; }
MEZZO_VEC I operator-(I a, I b) { return {_mm256_sub_epi32(a.v, b.v)}; }
MEZZO_VEC I operator&(I a, I b) { return {_mm256_and_si256(a.v, b.v)}; }
MEZZO_VEC I operator|(I a, I b) { return {_mm256_or_si256(a.v, b.v)}; }
MEZZO_VEC I operator^(I a, I b) { return {_mm256_xor_si256(a.v, b.v)}; }
template <int kBits>
MEZZO_VEC I shift_left(I a) {
  return {_mm256_slli_epi32(a.v, kBits)};
}
template <int kBits>
MEZZO_VEC I shift_right(I a) {
  return {_mm256_srai_epi32(a.v, kBits)};
}
template <int kBits>
MEZZO_VEC I shift_right_zeros(I a) {
  return {_mm256_srli_epi32(a.v, kBits)};
}
MEZZO_VEC M operator<(F a, F b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
MEZZO_VEC M operator<=(F a, F b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
MEZZO_VEC M operator==(F a, F b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
MEZZO_VEC M operator!=(F a, F b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NEQ_UQ)}; }
MEZZO_VEC M is_nan(F a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
MEZZO_VEC M operator==(I a, I b) { return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.v, b.v))}; }
MEZZO_VEC M operator&(M a, M b) { return {_mm256_and_ps(a.v, b.v)}; }
MEZZO_VEC M operator|(M a, M b) { return {_mm256_or_ps(a.v, b.v)}; }
MEZZO_VEC bool any(M a) { return _mm256_movemask_ps(a.v) != 0; }
MEZZO_VEC bool all(M a) { return _mm256_movemask_ps(a.v) == 0xff; }
MEZZO_VEC F select(M m, F a, F b) { return {_mm256_blendv_ps(b.v, a.v, m.v)}; }
MEZZO_VEC I select(M m, I a, I b) {
  return {_mm256_castps_si256(
      _mm256_blendv_ps(_mm256_castsi256_ps(b.v), _mm256_castsi256_ps(a.v), m.v))};
}
template <int kStep>
MEZZO_VEC F swap_lanes(F a) {
  if constexpr (kStep == 4) return {_mm256_permute2f128_ps(a.v, a.v, 0x01)};
  if constexpr (kStep == 2) return {_mm256_permute_ps(a.v, 0x4e)};
  if constexpr (kStep == 1) return {_mm256_permute_ps(a.v, 0xb1)};
}
MEZZO_VEC float first_lane(F a) { return _mm256_cvtss_f32(a.v); }
// In two exact-or-rounded-once steps, as 2^k itself may lie outside the range. REQUIRES: |k| < 253.
MEZZO_VEC F scale_by_power(F a, F k) {
  const I whole = to_int(k);
  const I half = shift_right<1>(whole);
  const F first = from_bits(shift_left<23>(half + iset1(127)));
  const F second = from_bits(shift_left<23>(whole - half + iset1(127)));
  return a * first * second;
}

#endif

MEZZO_VEC F abs(F a) { return from_bits(bits(a) & iset1(0x7fffffff)); }
MEZZO_VEC F negate(F a) {
  return from_bits(bits(a) ^ iset1(static_cast<std::int32_t>(0x80000000U)));
}
MEZZO_VEC F copy_sign(F magnitude, F sign) {
  const I mask = iset1(static_cast<std::int32_t>(0x80000000U));
  return from_bits((bits(magnitude) & iset1(0x7fffffff)) | (bits(sign) & mask));
}
// NaN if either is NaN, as ONNX's and numpy's Max and Min.
MEZZO_VEC F max_nan(F a, F b) { return select(is_nan(a), a, max_or_second(a, b)); }
MEZZO_VEC F min_nan(F a, F b) { return select(is_nan(a), a, min_or_second(a, b)); }

// The first n lanes of memory, `rest` in the others. REQUIRES: 0 < n < kLanes.
MEZZO_VEC F load_n_or(const float* p, int n, F rest) {
  alignas(64) constexpr float kCount[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return select(load(kCount) < set1(static_cast<float>(n)), load_n(p, n), rest);
}

MEZZO_VEC F zero() { return set1(0.0F); }

// join(join(..)) of all lanes, by halves.
template <typename Join>
MEZZO_VEC float fold_lanes(F a, Join join) {
  if constexpr (kLanes == 16) a = join(a, swap_lanes<kLanes / 2>(a));
  a = join(a, swap_lanes<4>(a));
  a = join(a, swap_lanes<2>(a));
  return first_lane(join(a, swap_lanes<1>(a)));
}
MEZZO_VEC float sum_lanes(F a) {
  return fold_lanes(a, [](F x, F y) { return x + y; });
}

// c0 + c1 x + ... by Horner's scheme.
template <int kTerms>
MEZZO_VEC F polynomial(F x, const float (&c)[kTerms]) {
  F value = set1(c[kTerms - 1]);
  for (int i = kTerms - 2; i >= 0; --i) value = fma(value, x, set1(c[i]));
  return value;
}

}  // namespace mezzo::kernels::MEZZO_ISA
