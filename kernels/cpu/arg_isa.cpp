// Rows of numbers into the greatest or least of each column and the row it stands in.
#include "kernels/cpu/typed_loops.h"

namespace mezzo::kernels::MEZZO_ISA {
namespace {

// NaN counts as beyond every number, so that the first of them, or the last, wins.
template <class T, bool kLeast, bool kLast>
void rows(const void* x, Int row, void* best, Int* place, Int n) {
  const auto* p = static_cast<const T*>(x);
  auto* b = static_cast<T*>(best);
  MEZZO_INDEPENDENT_LOOP
  for (Int i = 0; i < n; ++i) {
    const T value = p[i];
    const bool beyond = kLeast ? value < b[i] : value > b[i];
    const bool equal = kLast && (value == b[i] || (value != value && b[i] != b[i]));
    const bool takes = beyond || equal || (value != value && b[i] == b[i]);
    b[i] = takes ? value : b[i];
    place[i] = takes ? row : place[i];
  }
}

template <class T>
ArgRows choose(bool least, bool last) {
  if (least) return last ? rows<T, true, true> : rows<T, true, false>;
  return last ? rows<T, false, true> : rows<T, false, false>;
}

}  // namespace

ArgRows arg_rows(DType dtype, bool least, bool last) {
  switch (dtype) {
    case DType::kFloat32: return choose<float>(least, last);
    case DType::kFloat64: return choose<double>(least, last);
    case DType::kInt8: return choose<std::int8_t>(least, last);
    case DType::kInt16: return choose<std::int16_t>(least, last);
    case DType::kInt32: return choose<std::int32_t>(least, last);
    case DType::kInt64: return choose<std::int64_t>(least, last);
    case DType::kUInt8: return choose<std::uint8_t>(least, last);
    case DType::kUInt16: return choose<std::uint16_t>(least, last);
    case DType::kUInt32: return choose<std::uint32_t>(least, last);
    case DType::kUInt64: return choose<std::uint64_t>(least, last);
    default: return nullptr;
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
