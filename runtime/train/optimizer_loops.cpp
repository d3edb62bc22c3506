// Compiled with -fno-math-errno (so that sqrt is an instruction) and -ffp-contract=off (so that all
// variants give the same bits). The bodies below are inlined into one function per instruction set.
#include "runtime/train/optimizer_loops.h"

#include <bit>
#include <cmath>

namespace mezzo::runtime {
namespace {

// Rounds as compiler/support/half.h does, without branches so that it vectorises.
[[gnu::always_inline]] inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
}

[[gnu::always_inline]] inline std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U;
  const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
  std::uint32_t result = magnitude < 0x38800000U ? subnormal : normal;
  result = magnitude >= 0x477ff000U ? 0x7c00U : result;
  result = magnitude > 0x7f800000U ? 0x7e00U : result;
  return static_cast<std::uint16_t>(sign | result);
}

using kernels::Momentum;
using kernels::unscaled;

enum class Low { kNone, kBf16, kF16 };

template <Low low>
[[gnu::always_inline]] inline void store_low(std::uint16_t* to, std::int64_t i, float value) {
  if constexpr (low == Low::kBf16) to[i] = to_bf16(value);
  if constexpr (low == Low::kF16) to[i] = to_f16(value);
}

// Sums run in 16 lanes, element i in lane i mod 16, which are added pairwise at the end.
constexpr std::int64_t kLanes = 16;

[[gnu::always_inline]] inline double total(double (&lanes)[kLanes]) {
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

[[gnu::always_inline]] inline double sum_of_squares_body(const float* __restrict g,
                                                         std::int64_t n) {
  double lanes[kLanes] = {};
  const std::int64_t whole = n / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const auto value = static_cast<double>(g[i + j]);
      lanes[j] += value * value;
    }
  }
  for (std::int64_t i = whole; i < n; ++i) {
    const auto value = static_cast<double>(g[i]);
    lanes[i - whole] += value * value;
  }
  return total(lanes);
}

enum class Velocity { kNone, kPlain, kNesterov };

template <Velocity kind, Low low>
[[gnu::always_inline]] inline void sgd_loop(const SgdArguments& a) {
  float* __restrict w = a.w;
  const float* __restrict grad = a.g;
  float* __restrict velocity = a.velocity;
  std::uint16_t* __restrict copy = a.low;
  const SgdArguments k = a;  // the compiler may keep these in registers: nothing points to them
#pragma omp simd
  for (std::int64_t i = 0; i < k.n; ++i) {
    const float g = unscaled(grad[i], k.inverse_scale, k.clip_factor, k.clip_value);
    float updated = 0;
    if constexpr (kind == Velocity::kNone) updated = kernels::sgd_element(k, w[i], g);
    if constexpr (kind == Velocity::kPlain)
      updated = kernels::sgd_momentum_element<Momentum::kPlain>(k, w[i], g, velocity[i]);
    if constexpr (kind == Velocity::kNesterov)
      updated = kernels::sgd_momentum_element<Momentum::kNesterov>(k, w[i], g, velocity[i]);
    w[i] = updated;
    store_low<low>(copy, i, updated);
  }
}

template <Low low>
[[gnu::always_inline]] inline void sgd_kinds(const SgdArguments& a) {
  if (a.velocity == nullptr) return sgd_loop<Velocity::kNone, low>(a);
  if (a.nesterov) return sgd_loop<Velocity::kNesterov, low>(a);
  sgd_loop<Velocity::kPlain, low>(a);
}

[[gnu::always_inline]] inline void sgd_body(const SgdArguments& a) {
  if (a.low_dtype == DType::kBFloat16) return sgd_kinds<Low::kBf16>(a);
  if (a.low_dtype == DType::kFloat16) return sgd_kinds<Low::kF16>(a);
  sgd_kinds<Low::kNone>(a);
}

template <Low low>
[[gnu::always_inline]] inline void adam_loop(const AdamArguments& a) {
  float* __restrict w = a.w;
  const float* __restrict grad = a.g;
  float* __restrict mean = a.mean;
  float* __restrict mean_square = a.mean_square;
  std::uint16_t* __restrict copy = a.low;
  const AdamArguments k = a;
#pragma omp simd
  for (std::int64_t i = 0; i < k.n; ++i) {
    const float g = unscaled(grad[i], k.inverse_scale, k.clip_factor, k.clip_value);
    const float updated = kernels::adam_element(k, w[i], g, mean[i], mean_square[i]);
    w[i] = updated;
    store_low<low>(copy, i, updated);
  }
}

[[gnu::always_inline]] inline void adam_body(const AdamArguments& a) {
  if (a.low_dtype == DType::kBFloat16) return adam_loop<Low::kBf16>(a);
  if (a.low_dtype == DType::kFloat16) return adam_loop<Low::kF16>(a);
  adam_loop<Low::kNone>(a);
}

template <Low low>
[[gnu::always_inline]] inline void adagrad_loop(const AdagradArguments& a) {
  float* __restrict w = a.w;
  const float* __restrict grad = a.g;
  float* __restrict sum = a.sum;
  std::uint16_t* __restrict copy = a.low;
  const AdagradArguments k = a;
#pragma omp simd
  for (std::int64_t i = 0; i < k.n; ++i) {
    const float g = unscaled(grad[i], k.inverse_scale, k.clip_factor, k.clip_value);
    const float updated = kernels::adagrad_element(k, w[i], g, sum[i]);
    w[i] = updated;
    store_low<low>(copy, i, updated);
  }
}

[[gnu::always_inline]] inline void adagrad_body(const AdagradArguments& a) {
  if (a.low_dtype == DType::kBFloat16) return adagrad_loop<Low::kBf16>(a);
  if (a.low_dtype == DType::kFloat16) return adagrad_loop<Low::kF16>(a);
  adagrad_loop<Low::kNone>(a);
}

[[gnu::always_inline]] inline LambNorms lamb_moments_body(const LambArguments& a) {
  const float* __restrict w = a.w;
  const float* __restrict grad = a.g;
  float* __restrict mean = a.mean;
  float* __restrict mean_square = a.mean_square;
  const LambArguments k = a;
  double weights[kLanes] = {}, updates[kLanes] = {};
  const auto element = [&](std::int64_t i, std::int64_t lane) __attribute__((always_inline)) {
    const float g = unscaled(grad[i], k.inverse_scale, k.clip_factor, k.clip_value);
    kernels::lamb_moments(k, g, mean[i], mean_square[i]);
    const auto update = static_cast<double>(kernels::lamb_update(k, w[i], mean[i], mean_square[i]));
    const auto weight = static_cast<double>(w[i]);
    weights[lane] += weight * weight;
    updates[lane] += update * update;
  };
  const std::int64_t whole = k.n / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
    for (std::int64_t j = 0; j < kLanes; ++j) element(i + j, j);
  }
  for (std::int64_t i = whole; i < k.n; ++i) element(i, i - whole);
  return {total(weights), total(updates)};
}

template <Low low>
[[gnu::always_inline]] inline void lamb_apply_loop(const LambArguments& a) {
  float* __restrict w = a.w;
  const float* __restrict mean = a.mean;
  const float* __restrict mean_square = a.mean_square;
  std::uint16_t* __restrict copy = a.low;
  const LambArguments k = a;
#pragma omp simd
  for (std::int64_t i = 0; i < k.n; ++i) {
    const float updated = w[i] - k.rate * kernels::lamb_update(k, w[i], mean[i], mean_square[i]);
    w[i] = updated;
    store_low<low>(copy, i, updated);
  }
}

[[gnu::always_inline]] inline void lamb_apply_body(const LambArguments& a) {
  if (a.low_dtype == DType::kBFloat16) return lamb_apply_loop<Low::kBf16>(a);
  if (a.low_dtype == DType::kFloat16) return lamb_apply_loop<Low::kF16>(a);
  lamb_apply_loop<Low::kNone>(a);
}

[[gnu::always_inline]] inline void average_body(float* __restrict average,
                                                const float* __restrict w, float share,
                                                std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) average[i] = kernels::averaged(average[i], w[i], share);
}

template <Low low>
[[gnu::always_inline]] inline void write_low_loop(const float* __restrict w,
                                                  std::uint16_t* __restrict to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) store_low<low>(to, i, w[i]);
}

[[gnu::always_inline]] inline void write_low_body(const float* w, std::uint16_t* to, DType dtype,
                                                  std::int64_t n) {
  if (dtype == DType::kBFloat16) return write_low_loop<Low::kBf16>(w, to, n);
  write_low_loop<Low::kF16>(w, to, n);
}

namespace plain {
double sum_of_squares(const float* g, std::int64_t n) { return sum_of_squares_body(g, n); }
void sgd(const SgdArguments& a) { sgd_body(a); }
void adam(const AdamArguments& a) { adam_body(a); }
void adagrad(const AdagradArguments& a) { adagrad_body(a); }
LambNorms lamb_moments(const LambArguments& a) { return lamb_moments_body(a); }
void lamb_apply(const LambArguments& a) { lamb_apply_body(a); }
void average(float* to, const float* w, float share, std::int64_t n) {
  average_body(to, w, share, n);
}
void write_low(const float* w, std::uint16_t* low, DType dtype, std::int64_t n) {
  write_low_body(w, low, dtype, n);
}
constexpr OptimizerLoops kLoops = {sum_of_squares, sgd,        adam,    adagrad,
                                   lamb_moments,   lamb_apply, average, write_low};
}  // namespace plain

// Clang asks the processor for these levels from version 18 on.
#if defined(__x86_64__) && (!defined(__clang__) || __clang_major__ >= 18)
namespace v3 {  // AVX2
[[gnu::target("arch=x86-64-v3")]] double sum_of_squares(const float* g, std::int64_t n) {
  return sum_of_squares_body(g, n);
}
[[gnu::target("arch=x86-64-v3")]] void sgd(const SgdArguments& a) { sgd_body(a); }
[[gnu::target("arch=x86-64-v3")]] void adam(const AdamArguments& a) { adam_body(a); }
[[gnu::target("arch=x86-64-v3")]] void adagrad(const AdagradArguments& a) { adagrad_body(a); }
[[gnu::target("arch=x86-64-v3")]] LambNorms lamb_moments(const LambArguments& a) {
  return lamb_moments_body(a);
}
[[gnu::target("arch=x86-64-v3")]] void lamb_apply(const LambArguments& a) { lamb_apply_body(a); }
[[gnu::target("arch=x86-64-v3")]] void average(float* to, const float* w, float share,
                                               std::int64_t n) {
  average_body(to, w, share, n);
}
[[gnu::target("arch=x86-64-v3")]] void write_low(const float* w, std::uint16_t* low, DType dtype,
                                                 std::int64_t n) {
  write_low_body(w, low, dtype, n);
}
constexpr OptimizerLoops kLoops = {sum_of_squares, sgd,        adam,    adagrad,
                                   lamb_moments,   lamb_apply, average, write_low};
}  // namespace v3

namespace v4 {  // AVX-512
[[gnu::target("arch=x86-64-v4")]] double sum_of_squares(const float* g, std::int64_t n) {
  return sum_of_squares_body(g, n);
}
[[gnu::target("arch=x86-64-v4")]] void sgd(const SgdArguments& a) { sgd_body(a); }
[[gnu::target("arch=x86-64-v4")]] void adam(const AdamArguments& a) { adam_body(a); }
[[gnu::target("arch=x86-64-v4")]] void adagrad(const AdagradArguments& a) { adagrad_body(a); }
[[gnu::target("arch=x86-64-v4")]] LambNorms lamb_moments(const LambArguments& a) {
  return lamb_moments_body(a);
}
[[gnu::target("arch=x86-64-v4")]] void lamb_apply(const LambArguments& a) { lamb_apply_body(a); }
[[gnu::target("arch=x86-64-v4")]] void average(float* to, const float* w, float share,
                                               std::int64_t n) {
  average_body(to, w, share, n);
}
[[gnu::target("arch=x86-64-v4")]] void write_low(const float* w, std::uint16_t* low, DType dtype,
                                                 std::int64_t n) {
  write_low_body(w, low, dtype, n);
}
constexpr OptimizerLoops kLoops = {sum_of_squares, sgd,        adam,    adagrad,
                                   lamb_moments,   lamb_apply, average, write_low};
}  // namespace v4
#endif

}  // namespace

int optimizer_loops_variants(OptimizerLoopsVariant (&variants)[3]) {
  int count = 0;
  variants[count++] = {"plain", &plain::kLoops};
#if defined(__x86_64__) && (!defined(__clang__) || __clang_major__ >= 18)
  if (__builtin_cpu_supports("x86-64-v3")) variants[count++] = {"x86-64-v3", &v3::kLoops};
  if (__builtin_cpu_supports("x86-64-v4")) variants[count++] = {"x86-64-v4", &v4::kLoops};
#endif
  return count;
}

const OptimizerLoops& optimizer_loops() {
  static const OptimizerLoops* const best = [] {
    OptimizerLoopsVariant variants[3];
    return variants[optimizer_loops_variants(variants) - 1].loops;
  }();
  return *best;
}

}  // namespace mezzo::runtime
