// Products of matrices: c[i][j] = sum over k of a[i][k] b[k][j], with b in panels.
//
// A panel holds the columns of two vectors, all of depth: b[k][j] lies at k * width + j (kPairs:
// the pairs of neighbours along k together, (k / 2 * width + j) * 2 + k % 2). A tile of rows of a
// times a panel is kept in registers; each sum runs along k in order, in a lane of its own.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/vec.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
constexpr int kTileRows = 8;  // of a: 16 sums in 32 registers
#else
constexpr int kBytes = 32;
constexpr int kTileRows = 6;  // 12 sums in 16 registers
#endif
constexpr int kVectors = 2;  // of a panel

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

template <typename T>
MEZZO_VEC void store_vector(T* p, Vector<T> value) {
  *reinterpret_cast<typename VectorOf<T>::unaligned*>(p) = value;
}

// Operand and sum types, how many operands lie together along k, and sum + a b, where a is one
// element (or pair) of a row in all lanes. Integers are unsigned, so that they wrap.
struct Float32 {
  using Operand = float;
  using Sum = float;
  static constexpr Int kGroup = 1;
  MEZZO_VEC Vector<float> add(const float* a, Vector<float> b, Vector<float> sum) {
#if defined(__AVX512F__)
    return Vector<float>(_mm512_fmadd_ps(_mm512_set1_ps(*a), __m512(b), __m512(sum)));
#else
    return Vector<float>(_mm256_fmadd_ps(_mm256_set1_ps(*a), __m256(b), __m256(sum)));
#endif
  }
};
struct Float64 {
  using Operand = double;
  using Sum = double;
  static constexpr Int kGroup = 1;
  MEZZO_VEC Vector<double> add(const double* a, Vector<double> b, Vector<double> sum) {
#if defined(__AVX512F__)
    return Vector<double>(_mm512_fmadd_pd(_mm512_set1_pd(*a), __m512d(b), __m512d(sum)));
#else
    return Vector<double>(_mm256_fmadd_pd(_mm256_set1_pd(*a), __m256d(b), __m256d(sum)));
#endif
  }
};
template <typename T>
struct Wrapping {
  using Operand = T;
  using Sum = T;
  static constexpr Int kGroup = 1;
  MEZZO_VEC Vector<T> add(const T* a, Vector<T> b, Vector<T> sum) { return *a * b + sum; }
};
// int16 times int16, neighbours along k added, in int32.
struct Pairs16 {
  using Operand = std::int16_t;
  using Sum = std::int32_t;
  static constexpr Int kGroup = 2;
  MEZZO_VEC Vector<std::int32_t> add(const std::int16_t* a, Vector<std::int32_t> b,
                                     Vector<std::int32_t> sum) {
    std::int32_t pair;
    __builtin_memcpy(&pair, a, sizeof(pair));
#if defined(__AVX512F__)
    return Vector<std::int32_t>(_mm512_madd_epi16(_mm512_set1_epi32(pair), __m512i(b))) + sum;
#else
    return Vector<std::int32_t>(_mm256_madd_epi16(_mm256_set1_epi32(pair), __m256i(b))) + sum;
#endif
  }
};

template <typename Kind>
constexpr Int kLanesOf = kBytes / static_cast<Int>(sizeof(typename Kind::Sum));
template <typename Kind>
constexpr Int kPanel = kVectors* kLanesOf<Kind>;

// kRows rows of a times one panel. `columns` < kPanel: the last of c.
template <typename Kind, int kRows>
void tile(const typename Kind::Operand* a, Int a_stride, const typename Kind::Operand* panel,
          typename Kind::Sum* c, Int c_stride, Int columns, Int depth) {
  using Sum = typename Kind::Sum;
  constexpr Int kLanesHere = kLanesOf<Kind>;
  const auto* b = reinterpret_cast<const Sum*>(panel);
  Vector<Sum> sums[kRows][kVectors] = {};
  for (Int k = 0; k < depth; k += Kind::kGroup, b += kPanel<Kind>) {
    const Vector<Sum> first = load_vector(b);
    const Vector<Sum> second = load_vector(b + kLanesHere);
    for (int i = 0; i < kRows; ++i) {
      sums[i][0] = Kind::add(a + i * a_stride + k, first, sums[i][0]);
      sums[i][1] = Kind::add(a + i * a_stride + k, second, sums[i][1]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    if (columns == kPanel<Kind>) {
      store_vector(c + i * c_stride, sums[i][0]);
      store_vector(c + i * c_stride + kLanesHere, sums[i][1]);
      continue;
    }
    Sum lanes[kPanel<Kind>];
    store_vector(lanes, sums[i][0]);
    store_vector(lanes + kLanesHere, sums[i][1]);
    for (Int j = 0; j < columns; ++j) c[i * c_stride + j] = lanes[j];
  }
}

// One row times four panels at once: with one, the sums would wait for each other.
template <typename Kind>
void row_times_panels(const typename Kind::Operand* a, const typename Kind::Operand* panels,
                      typename Kind::Sum* c, Int depth) {
  using Sum = typename Kind::Sum;
  constexpr Int kLanesHere = kLanesOf<Kind>;
  const Int panel = (depth + Kind::kGroup - 1) / Kind::kGroup * kPanel<Kind>;
  const auto* b = reinterpret_cast<const Sum*>(panels);
  Vector<Sum> sums[4][kVectors] = {};
  for (Int k = 0; k < depth; k += Kind::kGroup, b += kPanel<Kind>) {
    for (int p = 0; p < 4; ++p) {
      for (int v = 0; v < kVectors; ++v) {
        sums[p][v] = Kind::add(a + k, load_vector(b + p * panel + v * kLanesHere), sums[p][v]);
      }
    }
  }
  for (int p = 0; p < 4; ++p) {
    for (int v = 0; v < kVectors; ++v) {
      store_vector(c + p * kPanel<Kind> + v * kLanesHere, sums[p][v]);
    }
  }
}

template <typename Kind>
void row_of_tiles(const typename Kind::Operand* a, Int a_stride,
                  const typename Kind::Operand* panels, typename Kind::Sum* c, Int c_stride,
                  Int rows, Int columns, Int depth) {
  using Tile = void (*)(const typename Kind::Operand*, Int, const typename Kind::Operand*,
                        typename Kind::Sum*, Int, Int, Int);
  constexpr Tile kTiles[] = {tile<Kind, 1>, tile<Kind, 2>, tile<Kind, 3>, tile<Kind, 4>,
                             tile<Kind, 5>, tile<Kind, 6>, tile<Kind, 7>, tile<Kind, 8>};
  const Int panel = (depth + Kind::kGroup - 1) / Kind::kGroup * Kind::kGroup * kPanel<Kind>;
  Int j = 0;
  if (rows == 1) {
    for (; j + 4 * kPanel<Kind> <= columns; j += 4 * kPanel<Kind>) {
      row_times_panels<Kind>(a, panels + j / kPanel<Kind> * panel, c + j, depth);
    }
  }
  for (; j < columns; j += kPanel<Kind>) {
    const Int width = columns - j < kPanel<Kind> ? columns - j : kPanel<Kind>;
    kTiles[rows - 1](a, a_stride, panels + j / kPanel<Kind> * panel, c + j, c_stride, width, depth);
  }
}

template <typename Kind>
void run(const void* a, Int a_stride, const void* panels, void* c, Int c_stride, Int rows,
         Int columns, Int depth) {
  const auto* left = static_cast<const typename Kind::Operand*>(a);
  const auto* right = static_cast<const typename Kind::Operand*>(panels);
  auto* sums = static_cast<typename Kind::Sum*>(c);
  for (Int i = 0; i < rows; i += kTileRows) {
    const Int count = rows - i < kTileRows ? rows - i : kTileRows;
    row_of_tiles<Kind>(left + i * a_stride, a_stride, right, sums + i * c_stride, c_stride, count,
                       columns, depth);
  }
}

// One panel of `columns` <= kPanel columns, zeros beyond.
template <typename Kind>
void pack_panel(const typename Kind::Operand* b, Int k_stride, Int j_stride, Int columns, Int depth,
                typename Kind::Operand* to) {
  using Operand = typename Kind::Operand;
  constexpr Int kWidth = kPanel<Kind>;
  constexpr Int kGroup = Kind::kGroup;
  const Int padded = (depth + kGroup - 1) / kGroup * kGroup;
  if (columns < kWidth || depth < padded) {
    for (Int i = 0; i < padded * kWidth; ++i) to[i] = Operand{};
  }
  if (j_stride == 1) {
    for (Int k = 0; k < depth; ++k) {
      const Operand* from = b + k * k_stride;
      Operand* row = to + k / kGroup * kGroup * kWidth + k % kGroup;
      for (Int j = 0; j < columns; ++j) row[j * kGroup] = from[j];
    }
    return;
  }
  for (Int j = 0; j < columns; ++j) {
    const Operand* from = b + j * j_stride;
    for (Int k = 0; k < depth; ++k) {
      to[(k / kGroup * kWidth + j) * kGroup + k % kGroup] = from[k * k_stride];
    }
  }
}

template <typename Kind>
void pack(const void* b, Int k_stride, Int j_stride, Int columns, Int depth, void* to) {
  const auto* from = static_cast<const typename Kind::Operand*>(b);
  auto* panel = static_cast<typename Kind::Operand*>(to);
  const Int padded = (depth + Kind::kGroup - 1) / Kind::kGroup * Kind::kGroup;
  for (Int j = 0; j < columns; j += kPanel<Kind>) {
    const Int width = columns - j < kPanel<Kind> ? columns - j : kPanel<Kind>;
    pack_panel<Kind>(from + j * j_stride, k_stride, j_stride, width, depth, panel);
    panel += padded * kPanel<Kind>;
  }
}

}  // namespace

Int panel_columns(cpu::ProductKind kind) {
  return kind == cpu::ProductKind::kFloat64 || kind == cpu::ProductKind::kInt64 ? kPanel<Float64>
                                                                                : kPanel<Float32>;
}

void pack_panels(cpu::ProductKind kind, const void* b, Int k_stride, Int j_stride, Int columns,
                 Int depth, void* to) {
  using cpu::ProductKind;
  const auto packs = kind == ProductKind::kFloat32   ? pack<Float32>
                     : kind == ProductKind::kFloat64 ? pack<Float64>
                     : kind == ProductKind::kInt32   ? pack<Wrapping<std::uint32_t>>
                     : kind == ProductKind::kInt64   ? pack<Wrapping<std::uint64_t>>
                                                     : pack<Pairs16>;
  packs(b, k_stride, j_stride, columns, depth, to);
}

void multiply(cpu::ProductKind kind, const void* a, Int a_stride, const void* panels, void* c,
              Int c_stride, Int rows, Int columns, Int depth) {
  using cpu::ProductKind;
  const auto loop = kind == ProductKind::kFloat32   ? run<Float32>
                    : kind == ProductKind::kFloat64 ? run<Float64>
                    : kind == ProductKind::kInt32   ? run<Wrapping<std::uint32_t>>
                    : kind == ProductKind::kInt64   ? run<Wrapping<std::uint64_t>>
                                                    : run<Pairs16>;
  loop(a, a_stride, panels, c, c_stride, rows, columns, depth);
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
