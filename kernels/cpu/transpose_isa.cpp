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

// Asks for the cache line at p[offset], which may lie outside the tensor: then nothing happens.
template <int kForWriting, typename T>
[[gnu::always_inline]] inline void ask_for(const T* p, Int offset) {
  const auto address =
      reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(offset) * sizeof(T);
  __builtin_prefetch(reinterpret_cast<const void*>(address), kForWriting);
}

// One block of at most a cache line of rows and columns.
template <typename T>
[[gnu::always_inline]] inline void turn_block(const T* from, Int from_stride, T* to, Int to_stride,
                                              Int rows, Int columns) {
  const Int r8 = rows / 8 * 8;
  const Int c8 = columns / 8 * 8;
  for (Int c = 0; c < c8; c += 8) {
    for (Int r = 0; r < r8; r += 8) {
      turn_8x8(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    }
  }
  for (Int c = 0; c < columns; ++c) {
    for (Int r = c < c8 ? r8 : 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
  }
}

// Matrices of few rows that lie side by side in the result (pixels of few channels, pixel shuffle),
// and the way back. Unrolled, so that the compiler shuffles whole vectors.
template <int kRows, typename T>
void interleave(const T* from, Int from_stride, T* to, Int columns) {
  for (Int c = 0; c < columns; ++c) {
    for (int r = 0; r < kRows; ++r) to[c * kRows + r] = from[r * from_stride + c];
  }
}
template <int kColumns, typename T>
void deinterleave(const T* from, T* to, Int to_stride, Int rows) {
  for (int c = 0; c < kColumns; ++c) {
    for (Int r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * kColumns + c];
  }
}

// True if that was the form of the matrix.
template <typename T>
bool turn_narrow(const T* __restrict from, Int from_stride, T* __restrict to, Int to_stride,
                 Int rows, Int columns) {
  if (rows == to_stride && rows <= 4) {
    switch (rows) {
      case 2: interleave<2>(from, from_stride, to, columns); return true;
      case 3: interleave<3>(from, from_stride, to, columns); return true;
      case 4: interleave<4>(from, from_stride, to, columns); return true;
      default: return false;
    }
  }
  if (columns == from_stride && columns <= 4) {
    switch (columns) {
      case 2: deinterleave<2>(from, to, to_stride, rows); return true;
      case 3: deinterleave<3>(from, to, to_stride, rows); return true;
      case 4: deinterleave<4>(from, to, to_stride, rows); return true;
      default: return false;
    }
  }
  return false;
}

// The prefetchers of the processor do not see through strides, so the next blocks are asked for.
// Blocks go along the operand's rows where the result's rows lie close together (its lines are then
// in the same few pages), else along the result's rows. Measured on Zen 5 with one thread: without
// asking 9 to 15 GB/s, with it 16 to 37, memcpy about 35.
template <typename T>
void turn(const T* from, Int from_stride, T* to, Int to_stride, Int rows, Int columns) {
  if (turn_narrow(from, from_stride, to, to_stride, rows, columns)) return;
  constexpr Int kLine = 64 / sizeof(T);
  const auto block = [&](Int r, Int c) {
    turn_block(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride,
               rows - r < kLine ? rows - r : kLine, columns - c < kLine ? columns - c : kLine);
  };
  if (to_stride * static_cast<Int>(sizeof(T)) <= 4096) {
    for (Int r = 0; r < rows; r += kLine) {
      for (Int c = 0; c < columns; c += kLine) {
        for (Int i = 0; i < kLine; ++i) {
          ask_for<0>(from, (r + i) * from_stride + c + 4 * kLine);
          ask_for<1>(to, (c + i + 2 * kLine) * to_stride + r);
        }
        block(r, c);
      }
    }
    return;
  }
  for (Int c = 0; c < columns; c += kLine) {
    for (Int r = 0; r < rows; r += kLine) {
      for (Int i = 0; i < kLine; ++i) {
        ask_for<0>(from, (r + i + 2 * kLine) * from_stride + c);
        ask_for<1>(to, (c + i) * to_stride + r + 4 * kLine);
      }
      block(r, c);
    }
  }
}

template <typename T>
void turn_bytes(const void* from, Int from_stride, void* to, Int to_stride, Int rows, Int columns) {
  turn(static_cast<const T*>(from), from_stride, static_cast<T*>(to), to_stride, rows, columns);
}

}  // namespace

void transpose(int elem_bytes, const void* from, Int from_stride, void* to, Int to_stride, Int rows,
               Int columns) {
  switch (elem_bytes) {
    case 1: return turn_bytes<std::uint8_t>(from, from_stride, to, to_stride, rows, columns);
    case 2: return turn_bytes<std::uint16_t>(from, from_stride, to, to_stride, rows, columns);
    case 4: return turn_bytes<std::uint32_t>(from, from_stride, to, to_stride, rows, columns);
    default: return turn_bytes<std::uint64_t>(from, from_stride, to, to_stride, rows, columns);
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
