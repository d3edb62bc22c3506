#include "kernels/onednn/convert.h"

#include <immintrin.h>

#include <algorithm>

#include "compiler/support/half.h"
#include "kernels/cpu_features.h"

namespace mezzo::kernels::onednn {
namespace {

// Small enough to stay in the second-level cache, large enough to be worth a thread's start.
constexpr std::int64_t kChunkElems = 32 * 1024;

// F16C comes with AVX, thus with 8 lanes; the instruction set is chosen here, at run time, because
// the file is compiled for every x86-64.
[[gnu::target("avx,f16c")]] std::int64_t widen_lanes(const std::uint16_t* from, float* to,
                                                     std::int64_t elems) {
  std::int64_t i = 0;
  for (; i + 8 <= elems; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(half));
  }
  return i;
}

[[gnu::target("avx,f16c")]] std::int64_t narrow_lanes(const float* from, std::uint16_t* to,
                                                      std::int64_t elems) {
  std::int64_t i = 0;
  for (; i + 8 <= elems; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), half);
  }
  return i;
}

void widen(const std::uint16_t* from, float* to, std::int64_t elems) {
  std::int64_t i = has_f16c() ? widen_lanes(from, to, elems) : 0;
  for (; i < elems; ++i) to[i] = mezzo::f16_to_float(from[i]);
}

void narrow(const float* from, std::uint16_t* to, std::int64_t elems) {
  std::int64_t i = has_f16c() ? narrow_lanes(from, to, elems) : 0;
  for (; i < elems; ++i) to[i] = mezzo::float_to_f16(from[i]);
}

template <typename From, typename To>
void in_chunks(const From* from, To* to, std::int64_t elems, int threads,
               void (*convert)(const From*, To*, std::int64_t)) {
  const std::int64_t chunks = (elems + kChunkElems - 1) / kChunkElems;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && chunks > 1)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::int64_t begin = chunk * kChunkElems;
    convert(from + begin, to + begin, std::min(kChunkElems, elems - begin));
  }
}

}  // namespace

void f16_to_float(const std::uint16_t* from, float* to, std::int64_t elems, int threads) {
  in_chunks(from, to, elems, threads, widen);
}

void float_to_f16(const float* from, std::uint16_t* to, std::int64_t elems, int threads) {
  in_chunks(from, to, elems, threads, narrow);
}

}  // namespace mezzo::kernels::onednn
