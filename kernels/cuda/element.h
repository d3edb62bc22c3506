// Elements of any dtype in device code, chosen at run time: one kernel serves all dtypes.
//
// A kernel computes with numbers of type T: float, double or std::int64_t (bits of uint64 as they
// are). Conversions follow kernels/README.md: to floats rounded once, to nearest even; floats to
// integers truncated, saturated, NaN as 0; integers to integers the low bits; to bool x != 0.
// The dtype is the same for all threads, so that choosing it costs a branch and no divergence.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "compiler/support/dtype.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/element_dtypes.h"

namespace mezzo::kernels::cuda {

struct BoolElement {
  std::uint8_t bits;
};

template <typename U>
struct ElementTag {
  using Type = U;
};

// visit(ElementTag<U>()), U being what an element of `dtype` is in memory. Unknown dtypes: nothing.
template <typename Visit>
__device__ __forceinline__ void with_element(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat32: visit(ElementTag<float>()); break;
    case DType::kFloat64: visit(ElementTag<double>()); break;
    case DType::kFloat16: visit(ElementTag<__half>()); break;
    case DType::kBFloat16: visit(ElementTag<__nv_bfloat16>()); break;
    case DType::kInt8: visit(ElementTag<std::int8_t>()); break;
    case DType::kInt16: visit(ElementTag<std::int16_t>()); break;
    case DType::kInt32: visit(ElementTag<std::int32_t>()); break;
    case DType::kInt64: visit(ElementTag<std::int64_t>()); break;
    case DType::kUInt8: visit(ElementTag<std::uint8_t>()); break;
    case DType::kUInt16: visit(ElementTag<std::uint16_t>()); break;
    case DType::kUInt32: visit(ElementTag<std::uint32_t>()); break;
    case DType::kUInt64: visit(ElementTag<std::uint64_t>()); break;
    case DType::kBool: visit(ElementTag<BoolElement>()); break;
    default: break;
  }
}

// The ends of an integer type (nvcc takes no host function where only its value is meant).
template <typename U>
inline constexpr U kLeast = std::numeric_limits<U>::min();
template <typename U>
inline constexpr U kMost = std::numeric_limits<U>::max();

// `value` truncated to an integer, at the type's ends where it is beyond them, NaN as 0.
template <typename U, typename T>
__device__ __forceinline__ U saturate(T value) {
  if (!(value > static_cast<T>(kLeast<U>))) return value != value ? U{0} : kLeast<U>;
  return value >= static_cast<T>(kMost<U>) ? kMost<U> : static_cast<U>(value);
}

// A float next to `value`, with a set last bit if it is not exact ("round to odd"): rounded again
// to a 16-bit float it gives the one nearest to `value`.
template <typename I>
__device__ __forceinline__ float odd_float(I value) {
  std::uint64_t size = static_cast<std::uint64_t>(value);
  bool negative = false;
  if constexpr (std::is_signed_v<I>) negative = value < 0;
  if (negative) size = 0 - size;
  int shift = 0;
  std::uint64_t lost = 0;
  for (int step = 32; step > 0; step /= 2) {  // until 24 bits are left, which a float holds
    if (size >> (23 + step) == 0) continue;
    lost |= size & ((std::uint64_t{1} << step) - 1);
    size >>= step;
    shift += step;
  }
  const float scaled = static_cast<float>(size | (lost != 0 ? 1 : 0)) *
                       static_cast<float>(std::uint64_t{1} << shift);
  return negative ? -scaled : scaled;
}

// The number that an element holds.
template <typename T, typename U>
__device__ __forceinline__ T number_of(U element) {
  if constexpr (std::is_same_v<U, __half>) {
    return number_of<T>(__half2float(element));
  } else if constexpr (std::is_same_v<U, __nv_bfloat16>) {
    return number_of<T>(__bfloat162float(element));
  } else if constexpr (std::is_same_v<U, BoolElement>) {
    return element.bits != 0 ? T{1} : T{0};
  } else if constexpr (std::is_floating_point_v<U> && std::is_integral_v<T>) {
    return saturate<T>(element);
  } else {
    return static_cast<T>(element);
  }
}

// The element that holds `value`. T may also be std::uint64_t, for numbers that are of that dtype.
template <typename U, typename T>
__device__ __forceinline__ U element_of(T value) {
  if constexpr (std::is_same_v<U, BoolElement>) {
    return BoolElement{static_cast<std::uint8_t>(value != T{0} ? 1 : 0)};
  } else if constexpr (std::is_same_v<U, __half>) {
    if constexpr (std::is_same_v<T, double>)
      return __double2half(value);
    else if constexpr (std::is_integral_v<T>)
      return __float2half_rn(odd_float(value));
    else
      return __float2half_rn(value);
  } else if constexpr (std::is_same_v<U, __nv_bfloat16>) {
    if constexpr (std::is_same_v<T, double>)
      return __double2bfloat16(value);
    else if constexpr (std::is_integral_v<T>)
      return __float2bfloat16_rn(odd_float(value));
    else
      return __float2bfloat16_rn(value);
  } else if constexpr (std::is_integral_v<U> && std::is_floating_point_v<T>) {
    return saturate<U>(value);
  } else {
    return static_cast<U>(value);
  }
}

// Element number `at` of a buffer. REQUIRES (all below): has_elements(dtype)
// (element_dtypes.h).
template <typename T>
__device__ __forceinline__ T load_element(const void* data, std::int64_t at, DType dtype) {
  T value{};
  with_element(dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    value = number_of<T>(static_cast<const U*>(data)[at]);
  });
  return value;
}

template <typename T>
__device__ __forceinline__ void store_element(void* data, std::int64_t at, DType dtype, T value) {
  with_element(dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    static_cast<U*>(data)[at] = element_of<U>(value);
  });
}

// As many neighbours as one access moves: 16 bytes, or less where N are less.
template <typename U, int N>
struct Pack {
  static constexpr int kCount = N * sizeof(U) <= 16 ? N : static_cast<int>(16 / sizeof(U));
  static_assert(N % kCount == 0);
  alignas(kCount * sizeof(U)) U elements[kCount];
};

template <typename U, int N>
__device__ __forceinline__ bool is_aligned(const U* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Pack<U, N>) == 0;
}

// The first `count` of N neighbours from `from` on, into to[0 .. N); the rest of `to` becomes 0.
// Accesses of up to 16 bytes where all N are there and lie at a multiple of their size. N: a power
// of 2.
template <int N, typename U, typename T>
__device__ __forceinline__ void load_neighbours(const U* from, T* to, int count) {
  using Packed = Pack<U, N>;
  if (count == N && is_aligned<U, N>(from)) {
#pragma unroll
    for (int k = 0; k < N; k += Packed::kCount) {
      const Packed packed = *reinterpret_cast<const Packed*>(from + k);
#pragma unroll
      for (int i = 0; i < Packed::kCount; ++i) to[k + i] = number_of<T>(packed.elements[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = i < count ? number_of<T>(from[i]) : T{0};
  }
}

// The first `count` of N neighbours from `to` on; leaves what is beyond as it is.
template <int N, typename U, typename T>
__device__ __forceinline__ void store_neighbours(U* to, const T* from, int count) {
  using Packed = Pack<U, N>;
  if (count == N && is_aligned<U, N>(to)) {
#pragma unroll
    for (int k = 0; k < N; k += Packed::kCount) {
      Packed packed;
#pragma unroll
      for (int i = 0; i < Packed::kCount; ++i) packed.elements[i] = element_of<U>(from[k + i]);
      *reinterpret_cast<Packed*>(to + k) = packed;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < count) to[i] = element_of<U>(from[i]);
    }
  }
}

// The same from element `at` of a buffer of any dtype.
template <typename T, int N>
__device__ __forceinline__ void load_elements(const void* data, std::int64_t at, DType dtype,
                                              T (&to)[N], int count = N) {
  with_element(dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    load_neighbours<N>(static_cast<const U*>(data) + at, to, count);
  });
}

template <typename T, int N>
__device__ __forceinline__ void store_elements(void* data, std::int64_t at, DType dtype,
                                               const T (&from)[N], int count = N) {
  with_element(dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    store_neighbours<N>(static_cast<U*>(data) + at, from, count);
  });
}

}  // namespace mezzo::kernels::cuda
