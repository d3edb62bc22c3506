// Weighted sums of rows, and of elements found by index: the two directions of interpolation.
#include <immintrin.h>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/vec.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

MEZZO_VEC F gather(const float* x, const std::int32_t* indices) {
#if defined(__AVX512F__)
  return {_mm512_i32gather_ps(_mm512_loadu_si512(indices), x, 4)};
#else
  return {_mm256_i32gather_ps(x, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices)), 4)};
#endif
}

#if defined(__AVX512F__)
MEZZO_VEC __m512i lanes_from(const std::int32_t* indices, std::int32_t base) {
  return _mm512_sub_epi32(_mm512_loadu_si512(indices), _mm512_set1_epi32(base));
}
#else
MEZZO_VEC __m256i lanes_from(const std::int32_t* indices, std::int32_t base) {
  return _mm256_sub_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices)),
                          _mm256_set1_epi32(base));
}
#endif

// x[indices[lane]] for indices that lie within one vector from `base` on...
MEZZO_VEC F permute(const float* x, std::int32_t base, const std::int32_t* indices) {
#if defined(__AVX512F__)
  return {_mm512_permutexvar_ps(lanes_from(indices, base), _mm512_loadu_ps(x + base))};
#else
  return {_mm256_permutevar8x32_ps(_mm256_loadu_ps(x + base), lanes_from(indices, base))};
#endif
}

// ... and within two.
MEZZO_VEC F permute_two(const float* x, std::int32_t base, const std::int32_t* indices) {
#if defined(__AVX512F__)
  return {_mm512_permutex2var_ps(_mm512_loadu_ps(x + base), lanes_from(indices, base),
                                 _mm512_loadu_ps(x + base + kLanes))};
#else
  const __m256i lanes = lanes_from(indices, base);
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(x + base), lanes);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(x + base + kLanes), lanes);
  const __m256i beyond = _mm256_cmpgt_epi32(lanes, _mm256_set1_epi32(kLanes - 1));
  return {_mm256_blendv_ps(low, high, _mm256_castsi256_ps(beyond))};
#endif
}

// x[indices[lane]] for ascending indices below x_size, which is at least a vector.
MEZZO_VEC F take(const float* x, Int x_size, const std::int32_t* indices) {
  const std::int32_t first = indices[0], last = indices[kLanes - 1];
  const auto one = static_cast<std::int32_t>(x_size - kLanes);
  const std::int32_t base = first < one ? first : one;
  if (last - base < kLanes) return permute(x, base, indices);
  const auto two = static_cast<std::int32_t>(x_size - 2 * kLanes);
  const std::int32_t wide = first < two ? first : two;
  if (wide >= 0 && last - wide < 2 * kLanes) return permute_two(x, wide, indices);
  return gather(x, indices);
}

// kTaps = 0: any number.
template <int kTaps>
void blend_rows_of(const float* const* rows, const float* weights, Int taps, float* y, Int n) {
  if (kTaps > 0) taps = kTaps;
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    F sum = load(rows[0] + i) * set1(weights[0]);
    for (Int t = 1; t < taps; ++t) sum = fma(load(rows[t] + i), set1(weights[t]), sum);
    store(y + i, sum);
  }
  if (const int rest = static_cast<int>(n - i); rest > 0) {
    F sum = load_n(rows[0] + i, rest) * set1(weights[0]);
    for (Int t = 1; t < taps; ++t) sum = fma(load_n(rows[t] + i, rest), set1(weights[t]), sum);
    store_n(y + i, sum, rest);
  }
}

// Weight 0 keeps an infinity or NaN out.
MEZZO_VEC F weighted(F x, F weight) { return select(weight == zero(), zero(), x); }

// The elements after the last whole vector.
template <int kTaps>
void blend_rest(const float* x, const std::int32_t* indices, const float* weights, Int taps,
                float* y, Int n, Int i) {
  for (; i < n; ++i) {
    float sum = 0.0F;
    for (Int t = 0; t < taps; ++t) {
      const float weight = weights[t * n + i];
      if (weight != 0.0F) sum = __builtin_fmaf(x[indices[t * n + i]], weight, sum);
    }
    y[i] = sum;
  }
}

template <int kTaps>
void blend_taps_of(const float* x, const std::int32_t* indices, const float* weights, Int taps,
                   float* y, Int n) {
  if (kTaps > 0) taps = kTaps;
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    F sum = zero();
    for (Int t = 0; t < taps; ++t) {
      const F weight = load(weights + t * n + i);
      sum = fma(weighted(gather(x, indices + t * n + i), weight), weight, sum);
    }
    store(y + i, sum);
  }
  blend_rest<kTaps>(x, indices, weights, taps, y, n, i);
}

// Neighbours often come from one stretch of x: a load and a permutation then spare the gather.
template <int kTaps>
void blend_sorted_of(const float* x, Int x_size, const std::int32_t* indices, const float* weights,
                     Int taps, float* y, Int n) {
  if (kTaps > 0) taps = kTaps;
  Int i = 0;
  for (; i + kLanes <= n && x_size >= kLanes; i += kLanes) {
    F sum = zero();
    for (Int t = 0; t < taps; ++t) {
      const F weight = load(weights + t * n + i);
      sum = fma(weighted(take(x, x_size, indices + t * n + i), weight), weight, sum);
    }
    store(y + i, sum);
  }
  blend_rest<kTaps>(x, indices, weights, taps, y, n, i);
}

}  // namespace

void blend_rows(const float* const* rows, const float* weights, Int taps, float* y, Int n) {
  switch (taps) {
    case 2: return blend_rows_of<2>(rows, weights, taps, y, n);
    case 4: return blend_rows_of<4>(rows, weights, taps, y, n);
    default: return blend_rows_of<0>(rows, weights, taps, y, n);
  }
}

void blend_taps(const float* x, const std::int32_t* indices, const float* weights, Int taps,
                float* y, Int n) {
  switch (taps) {
    case 2: return blend_taps_of<2>(x, indices, weights, taps, y, n);
    case 4: return blend_taps_of<4>(x, indices, weights, taps, y, n);
    default: return blend_taps_of<0>(x, indices, weights, taps, y, n);
  }
}

void blend_sorted_taps(const float* x, Int x_size, const std::int32_t* indices,
                       const float* weights, Int taps, float* y, Int n) {
  switch (taps) {
    case 2: return blend_sorted_of<2>(x, x_size, indices, weights, taps, y, n);
    case 4: return blend_sorted_of<4>(x, x_size, indices, weights, taps, y, n);
    default: return blend_sorted_of<0>(x, x_size, indices, weights, taps, y, n);
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
