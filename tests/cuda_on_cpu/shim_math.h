// Arithmetic that nvcc has built in: CUDA's names for what <cmath> and the processor offer. The
// functions that are approximate on a device (__expf and its like) are exact here. Part of shim.h.
#pragma once

#include <math.h>  // isnan and its like in the global namespace

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

// --- min and max of two numbers, of mixed types as in CUDA; NaN gives way to a number ---
template <typename A, typename B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmin(static_cast<T>(a), static_cast<T>(b));
  } else {
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
  }
}
template <typename A, typename B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmax(static_cast<T>(a), static_cast<T>(b));
  } else {
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
  }
}

// --- functions <cmath> has not ---
inline float rsqrtf(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rcbrtf(float x) { return static_cast<float>(1.0 / std::cbrt(static_cast<double>(x))); }
inline float sinpif(float x) {
  return static_cast<float>(std::sin(M_PI * std::fmod(static_cast<double>(x), 2.0)));
}
inline float cospif(float x) {
  return static_cast<float>(std::cos(M_PI * std::fmod(static_cast<double>(x), 2.0)));
}
inline double sinpi(double x) { return std::sin(M_PI * std::fmod(x, 2.0)); }
inline double cospi(double x) { return std::cos(M_PI * std::fmod(x, 2.0)); }
inline float normcdff(float x) {
  return static_cast<float>(0.5 * std::erfc(-static_cast<double>(x) * M_SQRT1_2));
}
inline double normcdf(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
inline void sincospif(float x, float* sine, float* cosine) {
  *sine = sinpif(x);
  *cosine = cospif(x);
}

// --- one operation, rounded to nearest ---
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0F / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frsqrt_rn(float a) { return rsqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __drcp_rn(double a) { return 1.0 / a; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

// --- fast forms ---
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return std::pow(10.0F, x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline float __tanhf(float x) { return std::tanh(x); }
inline float __saturatef(float x) {
  return std::isnan(x) ? 0.0F : std::fmin(1.0F, std::fmax(x, 0.0F));
}

// --- bits and conversions; out of range a conversion saturates and NaN gives 0, as on a device ---
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

namespace cuda_on_cpu {
template <typename T>
T saturate(double x) {
  constexpr double kLeast = static_cast<double>(std::numeric_limits<T>::min());
  constexpr double kMost = static_cast<double>(std::numeric_limits<T>::max());
  if (std::isnan(x)) return 0;
  if (x <= kLeast) return std::numeric_limits<T>::min();
  if (x >= kMost) return std::numeric_limits<T>::max();
  return static_cast<T>(x);
}
}  // namespace cuda_on_cpu

inline int __float2int_rn(float x) { return cuda_on_cpu::saturate<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return cuda_on_cpu::saturate<int>(std::trunc(x)); }
inline int __float2int_rd(float x) { return cuda_on_cpu::saturate<int>(std::floor(x)); }
inline int __float2int_ru(float x) { return cuda_on_cpu::saturate<int>(std::ceil(x)); }
inline unsigned __float2uint_rn(float x) {
  return cuda_on_cpu::saturate<unsigned>(std::nearbyint(x));
}
inline unsigned __float2uint_rz(float x) { return cuda_on_cpu::saturate<unsigned>(std::trunc(x)); }
inline long long __float2ll_rn(float x) {
  return cuda_on_cpu::saturate<long long>(std::nearbyint(x));
}
inline long long __float2ll_rz(float x) { return cuda_on_cpu::saturate<long long>(std::trunc(x)); }
inline unsigned long long __float2ull_rz(float x) {
  return cuda_on_cpu::saturate<unsigned long long>(std::trunc(x));
}
inline int __double2int_rn(double x) { return cuda_on_cpu::saturate<int>(std::nearbyint(x)); }
inline int __double2int_rz(double x) { return cuda_on_cpu::saturate<int>(std::trunc(x)); }
inline long long __double2ll_rn(double x) {
  return cuda_on_cpu::saturate<long long>(std::nearbyint(x));
}
inline long long __double2ll_rz(double x) {
  return cuda_on_cpu::saturate<long long>(std::trunc(x));
}
inline unsigned long long __double2ull_rz(double x) {
  return cuda_on_cpu::saturate<unsigned long long>(std::trunc(x));
}
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }

// --- integers ---
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1U) << (31 - i);
  return reversed;
}
inline int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<std::int64_t>(a) * b >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(static_cast<Wide>(a) * b >> 64);
}

// --- loads and stores with hints to the caches ---
template <typename T>
T __ldg(const T* at) {
  return *at;
}
template <typename T>
T __ldcs(const T* at) {
  return *at;
}
template <typename T>
T __ldcg(const T* at) {
  return *at;
}
template <typename T>
void __stcs(T* at, std::type_identity_t<T> value) {
  *at = value;
}
template <typename T>
void __stcg(T* at, std::type_identity_t<T> value) {
  *at = value;
}
