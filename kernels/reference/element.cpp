#include "kernels/reference/element.h"

#include <bit>
#include <cmath>
#include <limits>

#include "compiler/support/half.h"
#include "kernels/reference/element_types.h"

namespace mezzo::kernels::reference {
namespace {

// The float nearest to `value`; if that is inexact and its last bit is clear, the neighbour on
// `value`'s other side, whose last bit is set. 24 bits are at least two more than float16 or
// bfloat16 keep, so rounding that to nearest even equals rounding `value` directly.
float to_odd_float(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  if ((std::bit_cast<std::uint32_t>(nearest) & 1U) != 0) return nearest;
  const float infinity = std::numeric_limits<float>::infinity();
  return std::nextafterf(nearest, value > static_cast<double>(nearest) ? infinity : -infinity);
}

struct Access {
  double (*load_double)(const void*, std::int64_t) = nullptr;
  Integer (*load_integer)(const void*, std::int64_t) = nullptr;
  void (*store_double)(void*, std::int64_t, double) = nullptr;
  void (*store_integer)(void*, std::int64_t, Integer) = nullptr;
};

template <typename T>
Access access() {
  return {
      [](const void* data, std::int64_t i) { return decode(static_cast<const T*>(data)[i]); },
      [](const void* data, std::int64_t i) -> Integer {
        const T element = static_cast<const T*>(data)[i];
        if constexpr (kIsFloat<T>) {
          return saturate<std::int64_t>(decode(element));
        } else if constexpr (std::is_same_v<T, Bool>) {
          return element.bits != 0 ? 1 : 0;
        } else {
          return element;
        }
      },
      [](void* data, std::int64_t i, double value) { static_cast<T*>(data)[i] = encode<T>(value); },
      [](void* data, std::int64_t i, Integer value) {
        if constexpr (std::is_same_v<T, double>) {
          static_cast<T*>(data)[i] = static_cast<double>(value);
        } else if constexpr (kIsFloat<T>) {
          static_cast<T*>(data)[i] = encode<T>(integer_to_odd_double(value));
        } else if constexpr (std::is_same_v<T, Bool>) {
          static_cast<T*>(data)[i] = {static_cast<std::uint8_t>(value != 0)};
        } else {
          static_cast<T*>(data)[i] = static_cast<T>(value);  // wraps, as in numpy
        }
      },
  };
}

Access access_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return access<float>();
    case DType::kFloat64: return access<double>();
    case DType::kFloat16: return access<Float16>();
    case DType::kBFloat16: return access<BFloat16>();
    case DType::kInt8: return access<std::int8_t>();
    case DType::kInt16: return access<std::int16_t>();
    case DType::kInt32: return access<std::int32_t>();
    case DType::kInt64: return access<std::int64_t>();
    case DType::kUInt8: return access<std::uint8_t>();
    case DType::kUInt16: return access<std::uint16_t>();
    case DType::kUInt32: return access<std::uint32_t>();
    case DType::kUInt64: return access<std::uint64_t>();
    case DType::kBool: return access<Bool>();
    default: return {};
  }
}

}  // namespace

std::uint16_t double_to_f16(double value) { return float_to_f16(to_odd_float(value)); }

std::uint16_t double_to_bf16(double value) { return float_to_bf16(to_odd_float(value)); }

double integer_to_odd_double(Integer value) {
  const auto nearest = static_cast<double>(value);
  const auto back = static_cast<Integer>(nearest);  // below 2^65: exact
  if (back == value || (std::bit_cast<std::uint64_t>(nearest) & 1U) != 0) return nearest;
  const double infinity = std::numeric_limits<double>::infinity();
  return std::nextafter(nearest, value > back ? infinity : -infinity);
}

bool has_elements(DType dtype) { return access_of(dtype).load_double != nullptr; }

Elements::Elements(const TensorDesc& desc) : dtype_(desc.dtype) {
  if (!desc.present()) return;  // left out: its other fields mean nothing
  count_ = desc.elems();
  const Access access = access_of(desc.dtype);
  load_double_ = access.load_double;
  load_integer_ = access.load_integer;
  store_double_ = access.store_double;
  store_integer_ = access.store_integer;
  if (desc.layout == Layout::kChannelsLast && count_ > 0) {
    channels_ = desc.dims[1];
    pixels_ = count_ / desc.dims[0] / channels_;
  }
}

void Elements::unpack(const void* data, double* to) const {
  for (std::int64_t i = 0; i < count_; ++i) to[i] = read<double>(data, i);
}

void Elements::pack(const double* from, void* data) const {
  for (std::int64_t i = 0; i < count_; ++i) write<double>(data, i, from[i]);
}

}  // namespace mezzo::kernels::reference
