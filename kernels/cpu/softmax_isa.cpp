// Softmax, LogSoftmax and their gradients along the rows of tiles t[n][width].
//
//   y = exp(x - m) / s,       m = max x, s = sum exp(x - m);   dx = y (dy - sum dy y)
//   y = x - m - log s;                                         dx = dy - exp(y) sum dy
//
// A width of 1 is the usual case, softmax over the innermost dim: vectors then run along n.
// Otherwise they run across the width, and every column is a softmax of its own.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/vec_math.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

float log_of(float x) {
  alignas(64) float lanes[kLanes];
  store(lanes, log(set1(x)));
  return lanes[0];
}

// At most kShort vectors, which stay in registers. Adds up in the order of softmax_run().
constexpr int kShort = 4;

void softmax_short(const float* x, float* y, Int n) {
  const int whole = static_cast<int>(n / kLanes);
  const int rest = static_cast<int>(n % kLanes);
  const F lowest = set1(-__builtin_inff());
  F v[kShort];
  F m = lowest;
  for (int k = 0; k < whole; ++k) {
    v[k] = load(x + k * kLanes);
    m = max_nan(m, v[k]);
  }
  if (rest > 0) {
    // Lanes beyond the end take no part: their exponent is -infinity.
    v[whole] = load_n_or(x + whole * kLanes, rest, lowest);
    m = max_nan(m, v[whole]);
  }
  m = set1(fold_lanes(m, [](F a, F b) { return max_nan(a, b); }));
  F sums[2] = {zero(), zero()};
  for (int k = 0; k < whole; ++k) {
    v[k] = exp(v[k] - m);
    sums[k % 2] = sums[k % 2] + v[k];
  }
  if (rest > 0) {
    v[whole] = exp(v[whole] - m);
    sums[0] = sums[0] + v[whole];
  }
  const F factor = set1(1.0F / sum_lanes(sums[0] + sums[1]));
  for (int k = 0; k < whole; ++k) store(y + k * kLanes, v[k] * factor);
  if (rest > 0) store_n(y + whole * kLanes, v[whole] * factor, rest);
}

void softmax_run(const float* x, float* y, Int n, bool log_form) {
  if (n < kShort * kLanes && !log_form) return softmax_short(x, y, n);
  const float greatest = reduce_run(ReduceOp::kMax, x, n);
  const F m = set1(greatest);
  // exp goes to y, unless its logarithm is wanted, which starts from x again.
  F sums[2] = {zero(), zero()};
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F e = exp(load(x + i) - m);
    F& sum = sums[i / kLanes % 2];
    sum = sum + e;
    if (!log_form) store(y + i, e);
  }
  const int rest = static_cast<int>(n - i);
  if (rest > 0) {
    // Lanes beyond the end take no part: their exponent is -infinity.
    alignas(64) float last[kLanes];
    store(last, set1(-__builtin_inff()));
    for (int k = 0; k < rest; ++k) last[k] = x[i + k] - greatest;
    const F e = exp(load(last));
    sums[0] = sums[0] + e;
    if (!log_form) store_n(y + i, e, rest);
  }
  const float sum = sum_lanes(sums[0] + sums[1]);
  const F shift = set1(log_form ? log_of(sum) : 0.0F);
  const F factor = set1(1.0F / sum);
  const float* from = log_form ? x : y;
  const auto finish = [&](F v) { return log_form ? v - m - shift : v * factor; };
  for (i = 0; i + kLanes <= n; i += kLanes) store(y + i, finish(load(from + i)));
  if (rest > 0) store_n(y + i, finish(load_n(from + i, rest)), rest);
}

// One vector of columns, its first `lanes` in use.
void softmax_columns(const float* x, float* y, Int n, Int width, int lanes, bool log_form) {
  const auto get = [&](Int i) { return load_n(x + i * width, lanes); };
  const auto put = [&](Int i, F value) { store_n(y + i * width, value, lanes); };
  F m = get(0);
  for (Int i = 1; i < n; ++i) m = max_nan(m, get(i));
  F sum = zero();
  for (Int i = 0; i < n; ++i) {
    const F e = exp(get(i) - m);
    sum = sum + e;
    if (!log_form) put(i, e);
  }
  const F shift = log_form ? m + log(sum) : zero();
  const F factor = set1(1.0F) / sum;
  for (Int i = 0; i < n; ++i) {
    put(i, log_form ? get(i) - shift : load_n(y + i * width, lanes) * factor);
  }
}

void softmax_grad_run(float* dy, const float* y, Int n, bool log_form) {
  F sums = zero();
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F d = load(dy + i);
    sums = log_form ? sums + d : fma(d, load(y + i), sums);
  }
  float sum = sum_lanes(sums);
  for (; i < n; ++i) sum += log_form ? dy[i] : dy[i] * y[i];
  const F s = set1(sum);
  const auto finish = [&](F d, F v) { return log_form ? fnma(exp(v), s, d) : v * (d - s); };
  for (i = 0; i + kLanes <= n; i += kLanes) store(dy + i, finish(load(dy + i), load(y + i)));
  if (const int rest = static_cast<int>(n - i); rest > 0) {
    store_n(dy + i, finish(load_n(dy + i, rest), load_n(y + i, rest)), rest);
  }
}

void softmax_grad_columns(float* dy, const float* y, Int n, Int width, int lanes, bool log_form) {
  F s = zero();
  for (Int i = 0; i < n; ++i) {
    const F d = load_n(dy + i * width, lanes);
    s = log_form ? s + d : fma(d, load_n(y + i * width, lanes), s);
  }
  for (Int i = 0; i < n; ++i) {
    const F d = load_n(dy + i * width, lanes);
    const F v = load_n(y + i * width, lanes);
    store_n(dy + i * width, log_form ? fnma(exp(v), s, d) : v * (d - s), lanes);
  }
}

template <typename Columns>
void for_columns(Int width, Columns&& columns) {
  for (Int c = 0; c < width; c += kLanes) {
    columns(c, static_cast<int>(width - c < kLanes ? width - c : kLanes));
  }
}

}  // namespace

void softmax(const float* x, float* y, Int n, Int width, bool log_form) {
  if (n == 0) return;
  if (width == 1) return softmax_run(x, y, n, log_form);
  for_columns(width,
              [&](Int c, int lanes) { softmax_columns(x + c, y + c, n, width, lanes, log_form); });
}

void softmax_grad(float* dy, const float* y, Int n, Int width, bool log_form) {
  if (width == 1) return softmax_grad_run(dy, y, n, log_form);
  for_columns(width, [&](Int c, int lanes) {
    softmax_grad_columns(dy + c, y + c, n, width, lanes, log_form);
  });
}

}  // namespace mezzo::kernels::MEZZO_ISA
