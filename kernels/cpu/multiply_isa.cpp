// Products of matrices whose rows both lie along the depth: c[i][j] = sum over k of a[i][k]
// b[j][k].
//
// Tiles of rows of a times rows of b are kept in registers; each sums up in the lanes of a vector,
// which are added in pairs at the end, then what is left of k in order.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/vec.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
constexpr int kTileRows = 4;  // of a; 16 sums and 8 operands in 32 registers
#else
constexpr int kBytes = 32;
constexpr int kTileRows = 2;  // 8 sums and 6 operands in 16 registers
#endif
constexpr int kTileColumns = 4;

// kBytes bytes of T at any address.
template <typename T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes)));
  typedef T unaligned __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
};
template <typename T>
using Vector = typename VectorOf<T>::type;

template <typename T>
MEZZO_VEC Vector<T> load_vector(const T* p) {
  return *reinterpret_cast<const typename VectorOf<T>::unaligned*>(p);
}

// Operand and sum types. Integers are unsigned, so that they wrap.
struct Float32 {
  using Operand = float;
  using Sum = float;
  MEZZO_VEC Vector<float> add(Vector<float> a, Vector<float> b, Vector<float> sum) {
#if defined(__AVX512F__)
    return Vector<float>(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(sum)));
#else
    return Vector<float>(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(sum)));
#endif
  }
};
struct Float64 {
  using Operand = double;
  using Sum = double;
  MEZZO_VEC Vector<double> add(Vector<double> a, Vector<double> b, Vector<double> sum) {
#if defined(__AVX512F__)
    return Vector<double>(_mm512_fmadd_pd(__m512d(a), __m512d(b), __m512d(sum)));
#else
    return Vector<double>(_mm256_fmadd_pd(__m256d(a), __m256d(b), __m256d(sum)));
#endif
  }
};
template <typename T>
struct Wrapping {
  using Operand = T;
  using Sum = T;
  MEZZO_VEC Vector<T> add(Vector<T> a, Vector<T> b, Vector<T> sum) { return a * b + sum; }
};
// int16 times int16, neighbours added, in int32.
struct Pairs16 {
  using Operand = std::int16_t;
  using Sum = std::int32_t;
  MEZZO_VEC Vector<std::int32_t> add(Vector<std::int16_t> a, Vector<std::int16_t> b,
                                     Vector<std::int32_t> sum) {
#if defined(__AVX512F__)
    return Vector<std::int32_t>(_mm512_madd_epi16(__m512i(a), __m512i(b))) + sum;
#else
    return Vector<std::int32_t>(_mm256_madd_epi16(__m256i(a), __m256i(b))) + sum;
#endif
  }
};

template <typename T>
MEZZO_VEC T sum_of(Vector<T> vector) {
  constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
  T lanes[kCount];
  __builtin_memcpy(lanes, &vector, sizeof(vector));
  for (int step = kCount / 2; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) lanes[i] += lanes[i + step];
  }
  return lanes[0];
}

// kRows rows of a times kColumns rows of b.
template <typename Kind, int kRows, int kColumns>
MEZZO_VEC void tile(const typename Kind::Operand* a, Int a_stride, const typename Kind::Operand* b,
                    Int b_stride, typename Kind::Sum* c, Int c_stride, Int depth) {
  using Operand = typename Kind::Operand;
  using Sum = typename Kind::Sum;
  constexpr Int kStep = kBytes / static_cast<Int>(sizeof(Operand));
  Vector<Sum> sums[kRows][kColumns] = {};
  Int k = 0;
  for (; k + kStep <= depth; k += kStep) {
    Vector<Operand> right[kColumns];
    for (int j = 0; j < kColumns; ++j) right[j] = load_vector(b + j * b_stride + k);
    for (int i = 0; i < kRows; ++i) {
      const Vector<Operand> left = load_vector(a + i * a_stride + k);
      for (int j = 0; j < kColumns; ++j) sums[i][j] = Kind::add(left, right[j], sums[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      Sum sum = sum_of<Sum>(sums[i][j]);
      for (Int rest = k; rest < depth; ++rest) {
        sum += static_cast<Sum>(a[i * a_stride + rest]) * static_cast<Sum>(b[j * b_stride + rest]);
      }
      c[i * c_stride + j] = sum;
    }
  }
}

template <typename Kind, int kRows>
MEZZO_VEC void row_of_tiles(const typename Kind::Operand* a, Int a_stride,
                            const typename Kind::Operand* b, Int b_stride, typename Kind::Sum* c,
                            Int c_stride, Int columns, Int depth) {
  Int j = 0;
  for (; j + kTileColumns <= columns; j += kTileColumns) {
    tile<Kind, kRows, kTileColumns>(a, a_stride, b + j * b_stride, b_stride, c + j, c_stride,
                                    depth);
  }
  for (; j < columns; ++j) {
    tile<Kind, kRows, 1>(a, a_stride, b + j * b_stride, b_stride, c + j, c_stride, depth);
  }
}

template <typename Kind>
void run(const void* a, Int a_stride, const void* b, Int b_stride, void* c, Int c_stride, Int rows,
         Int columns, Int depth) {
  const auto* left = static_cast<const typename Kind::Operand*>(a);
  const auto* right = static_cast<const typename Kind::Operand*>(b);
  auto* sums = static_cast<typename Kind::Sum*>(c);
  Int i = 0;
  for (; i + kTileRows <= rows; i += kTileRows) {
    row_of_tiles<Kind, kTileRows>(left + i * a_stride, a_stride, right, b_stride,
                                  sums + i * c_stride, c_stride, columns, depth);
  }
  for (; i < rows; ++i) {
    row_of_tiles<Kind, 1>(left + i * a_stride, a_stride, right, b_stride, sums + i * c_stride,
                          c_stride, columns, depth);
  }
}

}  // namespace

void multiply(cpu::ProductKind kind, const void* a, Int a_stride, const void* b, Int b_stride,
              void* c, Int c_stride, Int rows, Int columns, Int depth) {
  using cpu::ProductKind;
  const auto loop = kind == ProductKind::kFloat32   ? run<Float32>
                    : kind == ProductKind::kFloat64 ? run<Float64>
                    : kind == ProductKind::kInt32   ? run<Wrapping<std::uint32_t>>
                    : kind == ProductKind::kInt64   ? run<Wrapping<std::uint64_t>>
                                                    : run<Pairs16>;
  loop(a, a_stride, b, b_stride, c, c_stride, rows, columns, depth);
}

void widen_bytes(bool is_signed, const void* from, std::int32_t zero, std::int16_t* to, Int n) {
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  if (is_signed) {
    const auto* signed_bytes = static_cast<const std::int8_t*>(from);
    for (Int i = 0; i < n; ++i) to[i] = static_cast<std::int16_t>(signed_bytes[i] - zero);
  } else {
    for (Int i = 0; i < n; ++i) to[i] = static_cast<std::int16_t>(bytes[i] - zero);
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
