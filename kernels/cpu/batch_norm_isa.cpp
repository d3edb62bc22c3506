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

}  // namespace

void affine_run(const float* x, float mean, float a, float b, float* y, Int n) {
  const F m = set1(mean), factor = set1(a), shift = set1(b);
  for_vectors(n, [&](Int i, int lanes) {
    store_n(y + i, fma(load_n(x + i, lanes) - m, factor, shift), lanes);
  });
}

void affine_rows(const float* x, const float* mean, const float* a, const float* b, float* y,
                 Int rows, Int columns) {
  for (Int r = 0; r < rows; ++r, x += columns, y += columns) {
    for_vectors(columns, [&](Int c, int lanes) {
      const F centred = load_n(x + c, lanes) - load_n(mean + c, lanes);
      store_n(y + c, fma(centred, load_n(a + c, lanes), load_n(b + c, lanes)), lanes);
    });
  }
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
  for (Int r = 0; r < rows; ++r, dy += columns, x += columns) {
    for_vectors(columns, [&](Int c, int lanes) {
      const F d = load_n(dy + c, lanes);
      const F centred = load_n(x + c, lanes) - load_n(mean + c, lanes);
      store_n(sum_dy + c, load_n(sum_dy + c, lanes) + d, lanes);
      store_n(sum_dy_x + c, fma(d, centred, load_n(sum_dy_x + c, lanes)), lanes);
    });
  }
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
  for (Int r = 0; r < rows; ++r, dy += columns, x += columns, dx += columns) {
    for_vectors(columns, [&](Int i, int lanes) {
      const F centred = load_n(x + i, lanes) - load_n(mean + i, lanes);
      const F rest = fma(centred, load_n(b + i, lanes), load_n(c + i, lanes));
      store_n(dx + i, fma(load_n(dy + i, lanes), load_n(a + i, lanes), rest), lanes);
    });
  }
}

void moments_rows(const float* x, Int rows, Int columns, float* mean, float* m2) {
  for_vectors(columns, [&](Int c, int lanes) {
    F sum = zero();
    for (Int r = 0; r < rows; ++r) sum = sum + load_n(x + r * columns + c, lanes);
    const F m = sum * set1(1.0F / static_cast<float>(rows));
    F squares = zero();
    for (Int r = 0; r < rows; ++r) {
      const F d = load_n(x + r * columns + c, lanes) - m;
      squares = fma(d, d, squares);
    }
    store_n(mean + c, m, lanes);
    store_n(m2 + c, squares, lanes);
  });
}

}  // namespace mezzo::kernels::MEZZO_ISA
