// Elements of the four floating dtypes, for kernels that know no others: as element.h, with less
// code to choose from. T: float or double.
#pragma once

#include <cstdint>

#include "kernels/cuda/element.h"

namespace mezzo::kernels::cuda {

// Operands and results as kernels get them. data null: absent.
struct FloatsIn {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
};
struct FloatsOut {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
};

template <typename Visit>
__device__ __forceinline__ void with_float(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat64: visit(ElementTag<double>()); break;
    case DType::kFloat16: visit(ElementTag<__half>()); break;
    case DType::kBFloat16: visit(ElementTag<__nv_bfloat16>()); break;
    default: visit(ElementTag<float>()); break;
  }
}

template <typename T>
__device__ __forceinline__ T load_float(const FloatsIn& x, std::int64_t at) {
  T value{};
  with_float(x.dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    value = number_of<T>(static_cast<const U*>(x.data)[at]);
  });
  return value;
}

template <typename T>
__device__ __forceinline__ void store_float(const FloatsOut& y, std::int64_t at, T value) {
  with_float(y.dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    static_cast<U*>(y.data)[at] = element_of<U>(value);
  });
}

// N neighbours from element `at` on. REQUIRES: they lie at a multiple of 16 bytes, or of their
// common size where that is less.
template <typename T, int N>
__device__ __forceinline__ void load_packed(const FloatsIn& x, std::int64_t at, T (&to)[N]) {
  with_float(x.dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    using Packed = Pack<U, N>;
    const auto* from = reinterpret_cast<const Packed*>(static_cast<const U*>(x.data) + at);
#pragma unroll
    for (int p = 0; p < N / Packed::kCount; ++p) {
      const Packed packed = from[p];
#pragma unroll
      for (int i = 0; i < Packed::kCount; ++i) {
        to[p * Packed::kCount + i] = number_of<T>(packed.elements[i]);
      }
    }
  });
}

template <typename T, int N>
__device__ __forceinline__ void store_packed(const FloatsOut& y, std::int64_t at,
                                             const T (&from)[N]) {
  with_float(y.dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    using Packed = Pack<U, N>;
    auto* to = reinterpret_cast<Packed*>(static_cast<U*>(y.data) + at);
#pragma unroll
    for (int p = 0; p < N / Packed::kCount; ++p) {
      Packed packed;
#pragma unroll
      for (int i = 0; i < Packed::kCount; ++i) {
        packed.elements[i] = element_of<U>(from[p * Packed::kCount + i]);
      }
      to[p] = packed;
    }
  });
}

}  // namespace mezzo::kernels::cuda
