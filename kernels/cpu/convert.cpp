#include "kernels/cpu/convert.h"

#include <cstring>

namespace mezzo::kernels::cpu {
namespace {

template <typename T>
void fill(const void* value, void* to, Int n) {
  T element;
  std::memcpy(&element, value, sizeof element);
  std::fill_n(static_cast<T*>(to), n, element);
}

}  // namespace

bool is_convertible(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kBool:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: return true;
    default: return false;
  }
}

const void* load_block(const Isa& isa, DType dtype, DType loop, const void* data, Int first, Int n,
                       void* room) {
  const void* from = at(data, first, dtype);
  if (dtype == loop) return from;
  if (loop == DType::kFloat32 && (is_low(dtype) || dtype == DType::kBool)) {
    isa.unpack(dtype, from, static_cast<float*>(room), n);
  } else if (is_low(dtype)) {
    alignas(64) float singles[kBlock];
    isa.unpack(dtype, from, singles, n);
    isa.cast(DType::kFloat32, loop)(singles, room, n);
  } else {
    isa.cast(dtype, loop)(from, room, n);
  }
  return room;
}

void store_block(const Isa& isa, DType dtype, DType loop, const void* room, void* data, Int first,
                 Int n) {
  if (dtype == loop) return;
  void* to = at(data, first, dtype);
  if (loop == DType::kFloat32 && (is_low(dtype) || dtype == DType::kBool)) {
    isa.pack(dtype, static_cast<const float*>(room), to, n);
  } else if (is_low(dtype)) {
    alignas(64) float singles[kBlock];
    isa.cast_to_odd(loop)(room, singles, n);
    isa.pack(dtype, singles, to, n);
  } else {
    isa.cast(loop, dtype)(room, to, n);
  }
}

void fill_elements(DType dtype, const void* value, void* to, Int n) {
  switch (elem_bytes(dtype)) {
    case 1: return fill<std::uint8_t>(value, to, n);
    case 2: return fill<std::uint16_t>(value, to, n);
    case 4: return fill<std::uint32_t>(value, to, n);
    default: return fill<std::uint64_t>(value, to, n);
  }
}

}  // namespace mezzo::kernels::cpu
