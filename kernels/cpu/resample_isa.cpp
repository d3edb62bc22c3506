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
MEZZO_VEC F weighted(const float* x, const std::int32_t* indices, F weight) {
  return select(weight == zero(), zero(), gather(x, indices));
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
      sum = fma(weighted(x, indices + t * n + i, weight), weight, sum);
    }
    store(y + i, sum);
  }
  for (; i < n; ++i) {
    float sum = 0.0F;
    for (Int t = 0; t < taps; ++t) {
      const float weight = weights[t * n + i];
      if (weight != 0.0F) sum = __builtin_fmaf(x[indices[t * n + i]], weight, sum);
    }
    y[i] = sum;
  }
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

}  // namespace mezzo::kernels::MEZZO_ISA
