// Blocked transposition. Blocks are one cache line wide and high, so that every line read and
// written is used whole; inside a block, 8 x 8 pieces go through registers.
#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/loops.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

// 8 x 8 elements of 4 bytes.
[[gnu::always_inline]] inline void turn_8x8(const std::uint32_t* from, Int from_stride,
                                            std::uint32_t* to, Int to_stride) {
  __m256 r[8];
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(from + i * from_stride));
  }
  __m256 pairs[8];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  __m256 fours[8];
  for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(reinterpret_cast<float*>(to + i * to_stride),
                     _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20));
    _mm256_storeu_ps(reinterpret_cast<float*>(to + (i + 4) * to_stride),
                     _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31));
  }
}

// 8 x 8 elements of 2 bytes.
[[gnu::always_inline]] inline void turn_8x8(const std::uint16_t* from, Int from_stride,
                                            std::uint16_t* to, Int to_stride) {
  __m128i r[8];
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * from_stride));
  }
  __m128i pairs[8];
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
    pairs[i + 4] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
  }
  for (int half = 0; half < 2; ++half) {
    const __m128i* p = pairs + 4 * half;
    const __m128i low01 = _mm_unpacklo_epi32(p[0], p[1]);
    const __m128i low23 = _mm_unpacklo_epi32(p[2], p[3]);
    const __m128i high01 = _mm_unpackhi_epi32(p[0], p[1]);
    const __m128i high23 = _mm_unpackhi_epi32(p[2], p[3]);
    std::uint16_t* q = to + 4 * half * to_stride;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm_unpacklo_epi64(low01, low23));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q + to_stride), _mm_unpackhi_epi64(low01, low23));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q + 2 * to_stride),
                     _mm_unpacklo_epi64(high01, high23));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q + 3 * to_stride),
                     _mm_unpackhi_epi64(high01, high23));
  }
}

template <typename T>
[[gnu::always_inline]] inline void turn_8x8(const T* from, Int from_stride, T* to, Int to_stride) {
  for (int c = 0; c < 8; ++c) {
    for (int r = 0; r < 8; ++r) to[c * to_stride + r] = from[r * from_stride + c];
  }
}

template <typename T>
void turn(const T* from, Int from_stride, T* to, Int to_stride, Int rows, Int columns) {
  constexpr Int kLine = 64 / sizeof(T);
  const auto scalar = [&](Int r0, Int r1, Int c0, Int c1) {
    for (Int c = c0; c < c1; ++c) {
      for (Int r = r0; r < r1; ++r) to[c * to_stride + r] = from[r * from_stride + c];
    }
  };
  const auto block = [&](Int r0, Int r1, Int c0, Int c1) {
    const Int r8 = r0 + (r1 - r0) / 8 * 8;
    const Int c8 = c0 + (c1 - c0) / 8 * 8;
    for (Int c = c0; c < c8; c += 8) {
      for (Int r = r0; r < r8; r += 8) {
        turn_8x8(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
      }
    }
    scalar(r8, r1, c0, c8);
    scalar(r0, r1, c8, c1);
  };
  for (Int r = 0; r < rows; r += kLine) {
    for (Int c = 0; c < columns; c += kLine) {
      block(r, r + kLine < rows ? r + kLine : rows, c, c + kLine < columns ? c + kLine : columns);
    }
  }
}

template <typename T>
void turn_bytes(const void* from, Int from_stride, void* to, Int to_stride, Int rows,
                Int columns) {
  turn(static_cast<const T*>(from), from_stride, static_cast<T*>(to), to_stride, rows, columns);
}

}  // namespace

void transpose(int elem_bytes, const void* from, Int from_stride, void* to, Int to_stride,
               Int rows, Int columns) {
  switch (elem_bytes) {
    case 1: return turn_bytes<std::uint8_t>(from, from_stride, to, to_stride, rows, columns);
    case 2: return turn_bytes<std::uint16_t>(from, from_stride, to, to_stride, rows, columns);
    case 4: return turn_bytes<std::uint32_t>(from, from_stride, to, to_stride, rows, columns);
    default: return turn_bytes<std::uint64_t>(from, from_stride, to, to_stride, rows, columns);
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
