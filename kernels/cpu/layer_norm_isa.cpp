// One row of LayerNormalization, forward and backward, and the moments that BatchNormalization
// shares. x^ = (x - mean) inv_std, y = x^ scale + bias; with g = dy scale,
// dx = inv_std (g - mean(g) - x^ mean(g x^)).
#include "kernels/cpu/loops.h"
#include "kernels/cpu/vec.h"

namespace mezzo::kernels::MEZZO_ISA {

// Two passes over a run that fits into the cache: no cancellation, whatever the mean.
Moments moments(const float* x, Int n) {
  if (n == 0) return {0.0F, 0.0F};
  const float mean = reduce_run(ReduceOp::kSum, x, n) / static_cast<float>(n);
  const F m = set1(mean);
  F acc[2] = {zero(), zero()};
  Int i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    for (int k = 0; k < 2; ++k) {
      const F d = load(x + i + k * kLanes) - m;
      acc[k] = fma(d, d, acc[k]);
    }
  }
  float m2 = sum_lanes(acc[0] + acc[1]);
  for (; i < n; ++i) m2 += (x[i] - mean) * (x[i] - mean);
  return {mean, m2};
}

void normalize(const float* x, const float* scale, const float* bias, float mean, float inv_std,
               float* y, Int n) {
  const F m = set1(mean);
  const F inv = set1(inv_std);
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F b = bias != nullptr ? load(bias + i) : zero();
    store(y + i, fma((load(x + i) - m) * inv, load(scale + i), b));
  }
  if (const int rest = static_cast<int>(n - i); rest > 0) {
    const F b = bias != nullptr ? load_n(bias + i, rest) : zero();
    store_n(y + i, fma((load_n(x + i, rest) - m) * inv, load_n(scale + i, rest), b), rest);
  }
}

namespace {

struct GradSums {
  F g = zero();
  F g_x = zero();
};

// `lanes` elements: adds to dscale and dbias, and to the sums over the row.
MEZZO_VEC void grad_step(const float* dy, const float* x, const float* scale, F mean, F inv,
                         float* dscale, float* dbias, int lanes, GradSums& sums) {
  const F d = load_n(dy, lanes);
  const F normal = (load_n(x, lanes) - mean) * inv;
  const F g = d * load_n(scale, lanes);
  sums.g = sums.g + g;
  sums.g_x = fma(g, normal, sums.g_x);
  store_n(dscale, fma(d, normal, load_n(dscale, lanes)), lanes);
  store_n(dbias, load_n(dbias, lanes) + d, lanes);
}

}  // namespace

void layer_norm_grad(const float* dy, const float* x, const float* scale, float mean, float inv_std,
                     float* dx, float* dscale, float* dbias, Int n) {
  const F m = set1(mean);
  const F inv = set1(inv_std);
  GradSums sums;
  for (Int i = 0; i < n; i += kLanes) {
    const int lanes = static_cast<int>(n - i < kLanes ? n - i : kLanes);
    grad_step(dy + i, x + i, scale + i, m, inv, dscale + i, dbias + i, lanes, sums);
  }
  const float count = static_cast<float>(n);
  const F mean_g = set1(sum_lanes(sums.g) / count);
  const F mean_g_x = set1(sum_lanes(sums.g_x) / count);
  for (Int i = 0; i < n; i += kLanes) {
    const int lanes = static_cast<int>(n - i < kLanes ? n - i : kLanes);
    const F normal = (load_n(x + i, lanes) - m) * inv;
    const F g = load_n(dy + i, lanes) * load_n(scale + i, lanes);
    store_n(dx + i, inv * (g - fma(normal, mean_g_x, mean_g)), lanes);
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
