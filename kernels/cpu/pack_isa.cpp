// float16, bfloat16 and bool to float32 and back, with the bits of compiler/support/half.h.
//
// bfloat16 is rounded by integer arithmetic: the AVX512_BF16 instruction would flush subnormals.
#include <cstring>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/vec.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

#if defined(__AVX512F__)

F from_f16(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
F from_bf16(const void* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
F from_bool(const void* p) {
  const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  return {_mm512_cvtepi32_ps(wide)};
}
void to_f16(F x, void* p) {
  _mm256_storeu_si256(static_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
void store_low_halves(I words, void* p) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(words.v));
}
void store_low_bytes(I words, void* p) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(words.v));
}

#else

F from_f16(const void* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
F from_bf16(const void* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
}
F from_bool(const void* p) {
  const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
  return {_mm256_cvtepi32_ps(wide)};
}
void to_f16(F x, void* p) {
  _mm_storeu_si128(static_cast<__m128i*>(p),
                   _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
__m128i low_halves(I words) {
  const __m256i packed = _mm256_packus_epi32(words.v, words.v);  // per 128 bits
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
void store_low_halves(I words, void* p) {
  _mm_storeu_si128(static_cast<__m128i*>(p), low_halves(words));
}
void store_low_bytes(I words, void* p) {
  const __m128i halves = low_halves(words);
  _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packus_epi16(halves, halves));
}

#endif

void to_bf16(F x, void* p) {
  const I word = bits(x);
  const I rounded = word + iset1(0x7fff) + (shift_right_zeros<16>(word) & iset1(1));
  const I quiet = word | iset1(0x400000);
  store_low_halves(shift_right_zeros<16>(select(is_nan(x), quiet, rounded)), p);
}
void to_bool(F x, void* p) { store_low_bytes(select(x != zero(), iset1(1), iset1(0)), p); }

// `kBytes` per element on the packed side. The tail goes through a whole vector on the stack.
template <int kBytes, F (*kLoad)(const void*)>
void unpack_all(const void* from, float* to, Int n) {
  const char* p = static_cast<const char*>(from);
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, kLoad(p + i * kBytes));
  if (i == n) return;
  alignas(64) char rest[kLanes * kBytes] = {};
  std::memcpy(rest, p + i * kBytes, static_cast<std::size_t>((n - i) * kBytes));
  store_n(to + i, kLoad(rest), static_cast<int>(n - i));
}

template <int kBytes, void (*kStore)(F, void*)>
void pack_all(const float* from, void* to, Int n) {
  char* p = static_cast<char*>(to);
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) kStore(load(from + i), p + i * kBytes);
  if (i == n) return;
  alignas(64) char rest[kLanes * kBytes];
  kStore(load_n(from + i, static_cast<int>(n - i)), rest);
  std::memcpy(p + i * kBytes, rest, static_cast<std::size_t>((n - i) * kBytes));
}

}  // namespace

void unpack(DType dtype, const void* from, float* to, Int n) {
  switch (dtype) {
    case DType::kFloat16: return unpack_all<2, from_f16>(from, to, n);
    case DType::kBFloat16: return unpack_all<2, from_bf16>(from, to, n);
    case DType::kBool: return unpack_all<1, from_bool>(from, to, n);
    default: std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
  }
}

void pack(DType dtype, const float* from, void* to, Int n) {
  switch (dtype) {
    case DType::kFloat16: return pack_all<2, to_f16>(from, to, n);
    case DType::kBFloat16: return pack_all<2, to_bf16>(from, to, n);
    case DType::kBool: return pack_all<1, to_bool>(from, to, n);
    default: std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
