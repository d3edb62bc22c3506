// Runs and rows of BatchNormalization: *_run for one channel at a time (row-major), *_rows for all
// channels side by side (channels-last). The formulas stand in batch_norm.cpp.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/vec.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

// step(i, lanes) for every vector of a run of n.
template <typename Step>
MEZZO_VEC void for_vectors(Int n, Step&& step) {
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) step(i, kLanes);
  if (i < n) step(i, static_cast<int>(n - i));
}

// Columns are taken in groups of kGroup vectors: their numbers stay in registers over all rows, and
// memory is still read in long pieces. step(group, first column, lanes of a vector).
constexpr int kGroup = 4;
template <int kVectors>
struct Group {
  static constexpr int kCount = kVectors;
};
template <typename Step>
MEZZO_VEC void for_groups(Int columns, Step&& step) {
  Int c = 0;
  for (; c + kGroup * kLanes <= columns; c += kGroup * kLanes) step(Group<kGroup>(), c, kLanes);
  for (; c + kLanes <= columns; c += kLanes) step(Group<1>(), c, kLanes);
  if (c < columns) step(Group<1>(), c, static_cast<int>(columns - c));
}

template <int kCount>
MEZZO_VEC void load_group(F (&to)[kCount], const float* p, int lanes) {
  for (int k = 0; k < kCount; ++k) to[k] = load_n(p + k * kLanes, lanes);
}

}  // namespace

void affine_run(const float* x, float mean, float a, float b, float* y, Int n) {
  const F m = set1(mean), factor = set1(a), shift = set1(b);
  for_vectors(n, [&](Int i, int lanes) {
    store_n(y + i, fma(load_n(x + i, lanes) - m, factor, shift), lanes);
  });
}

void affine_rows(const float* x, const float* mean, const float* a, const float* b, float* y,
                 Int rows, Int columns) {
  for_groups(columns, [&](auto group, Int c, int lanes) {
    constexpr int kCount = group.kCount;
    F m[kCount], factor[kCount], shift[kCount];
    load_group(m, mean + c, lanes);
    load_group(factor, a + c, lanes);
    load_group(shift, b + c, lanes);
    for (Int at = c; at < rows * columns; at += columns) {
      for (int k = 0; k < kCount; ++k) {
        const Int i = at + k * kLanes;
        store_n(y + i, fma(load_n(x + i, lanes) - m[k], factor[k], shift[k]), lanes);
      }
    }
  });
}

void grad_sums_run(const float* dy, const float* x, float mean, Int n, float* sum_dy,
                   float* sum_dy_x) {
  const F m = set1(mean);
  F dys[2] = {zero(), zero()};
  F products[2] = {zero(), zero()};
  for_vectors(n, [&](Int i, int lanes) {
    const int k = static_cast<int>(i / kLanes % 2);
    const F d = load_n(dy + i, lanes);
    dys[k] = dys[k] + d;
    // Lanes beyond the end hold x = 0, dy = 0: a finite mean adds nothing.
    products[k] = fma(d, load_n(x + i, lanes) - m, products[k]);
  });
  *sum_dy += sum_lanes(dys[0] + dys[1]);
  *sum_dy_x += sum_lanes(products[0] + products[1]);
}

void grad_sums_rows(const float* dy, const float* x, const float* mean, Int rows, Int columns,
                    float* sum_dy, float* sum_dy_x) {
  for_groups(columns, [&](auto group, Int c, int lanes) {
    constexpr int kCount = group.kCount;
    F m[kCount], dys[kCount], products[kCount];
    load_group(m, mean + c, lanes);
    load_group(dys, sum_dy + c, lanes);
    load_group(products, sum_dy_x + c, lanes);
    for (Int at = c; at < rows * columns; at += columns) {
      for (int k = 0; k < kCount; ++k) {
        const F d = load_n(dy + at + k * kLanes, lanes);
        dys[k] = dys[k] + d;
        products[k] = fma(d, load_n(x + at + k * kLanes, lanes) - m[k], products[k]);
      }
    }
    for (int k = 0; k < kCount; ++k) {
      store_n(sum_dy + c + k * kLanes, dys[k], lanes);
      store_n(sum_dy_x + c + k * kLanes, products[k], lanes);
    }
  });
}

void grad_affine_run(const float* dy, const float* x, float mean, float a, float b, float c,
                     float* dx, Int n) {
  const F m = set1(mean), fa = set1(a), fb = set1(b), fc = set1(c);
  for_vectors(n, [&](Int i, int lanes) {
    const F centred = load_n(x + i, lanes) - m;
    store_n(dx + i, fma(load_n(dy + i, lanes), fa, fma(centred, fb, fc)), lanes);
  });
}

void grad_affine_rows(const float* dy, const float* x, const float* mean, const float* a,
                      const float* b, const float* c, float* dx, Int rows, Int columns) {
  for_groups(columns, [&](auto group, Int first, int lanes) {
    constexpr int kCount = group.kCount;
    F m[kCount], fa[kCount], fb[kCount], fc[kCount];
    load_group(m, mean + first, lanes);
    load_group(fa, a + first, lanes);
    load_group(fb, b + first, lanes);
    load_group(fc, c + first, lanes);
    for (Int at = first; at < rows * columns; at += columns) {
      for (int k = 0; k < kCount; ++k) {
        const Int i = at + k * kLanes;
        const F rest = fma(load_n(x + i, lanes) - m[k], fb[k], fc[k]);
        store_n(dx + i, fma(load_n(dy + i, lanes), fa[k], rest), lanes);
      }
    }
  });
}

void moments_rows(const float* x, Int rows, Int columns, float* mean, float* m2) {
  const F share = set1(1.0F / static_cast<float>(rows));
  for_groups(columns, [&](auto group, Int c, int lanes) {
    constexpr int kCount = group.kCount;
    F m[kCount], squares[kCount];
    for (int k = 0; k < kCount; ++k) m[k] = squares[k] = zero();
    for (Int at = c; at < rows * columns; at += columns) {
      for (int k = 0; k < kCount; ++k) m[k] = m[k] + load_n(x + at + k * kLanes, lanes);
    }
    for (int k = 0; k < kCount; ++k) m[k] = m[k] * share;
    for (Int at = c; at < rows * columns; at += columns) {
      for (int k = 0; k < kCount; ++k) {
        const F d = load_n(x + at + k * kLanes, lanes) - m[k];
        squares[k] = fma(d, d, squares[k]);
      }
    }
    for (int k = 0; k < kCount; ++k) {
      store_n(mean + c + k * kLanes, m[k], lanes);
      store_n(m2 + c + k * kLanes, squares[k], lanes);
    }
  });
}

}  // namespace mezzo::kernels::MEZZO_ISA
