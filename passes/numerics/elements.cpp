#include "passes/numerics/elements.h"

#include <new>

#include "compiler/support/half.h"

namespace mezzo::numerics {
namespace {

template <typename T>
void widen(const HostTensor& tensor, std::int64_t first, std::int64_t count, double* to) {
  const T* from = tensor.data_as<T>() + first;
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
}

template <float (*kWiden)(std::uint16_t)>
void widen_low(const HostTensor& tensor, std::int64_t first, std::int64_t count, double* to) {
  const auto* from = tensor.data_as<std::uint16_t>() + first;
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(kWiden(from[i]));
}

using Reader = void (*)(const HostTensor&, std::int64_t, std::int64_t, double*);

Reader reader_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return widen<float>;
    case DType::kFloat64: return widen<double>;
    case DType::kFloat16: return widen_low<f16_to_float>;
    case DType::kBFloat16: return widen_low<bf16_to_float>;
    case DType::kBool:
    case DType::kUInt8: return widen<std::uint8_t>;
    case DType::kInt8: return widen<std::int8_t>;
    case DType::kUInt16: return widen<std::uint16_t>;
    case DType::kInt16: return widen<std::int16_t>;
    case DType::kUInt32: return widen<std::uint32_t>;
    case DType::kInt32: return widen<std::int32_t>;
    case DType::kUInt64: return widen<std::uint64_t>;
    case DType::kInt64: return widen<std::int64_t>;
    default: return nullptr;
  }
}

}  // namespace

bool is_numeric(DType dtype) { return reader_of(dtype) != nullptr; }

void read_elements(const HostTensor& tensor, std::int64_t first, std::int64_t count, double* to) {
  reader_of(tensor.dtype)(tensor, first, count, to);
}

std::shared_ptr<float> float_block(std::size_t elems) {
  constexpr std::align_val_t kAlignment{64};
  void* const block = ::operator new(std::max<std::size_t>(1, elems) * sizeof(float), kAlignment);
  return {static_cast<float*>(block),
          [](float* memory) { ::operator delete (memory, std::align_val_t{64}); }};
}

}  // namespace mezzo::numerics
