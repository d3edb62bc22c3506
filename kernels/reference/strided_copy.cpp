#include "kernels/reference/strided_copy.h"

#include <cstring>

namespace mezzo::kernels::reference {
namespace {

// kBytes = 0: the size is known at run time only.
template <std::size_t kBytes>
void copy_elements(const StridedCopy& copy, const void* from, void* to) {
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  const std::size_t bytes = kBytes != 0 ? kBytes : copy.element_bytes;
  for_each(copy.loop, copy.start, [&](const std::array<std::int64_t, 2>& at) {
    std::memcpy(target + at[1] * static_cast<std::int64_t>(bytes),
                source + at[0] * static_cast<std::int64_t>(bytes), bytes);
  });
}

}  // namespace

void StridedCopy::run(const void* from, void* to) const {
  switch (element_bytes) {
    case 1: return copy_elements<1>(*this, from, to);
    case 2: return copy_elements<2>(*this, from, to);
    case 4: return copy_elements<4>(*this, from, to);
    case 8: return copy_elements<8>(*this, from, to);
    default: return copy_elements<0>(*this, from, to);
  }
}

StridedCopy whole_copy(const TensorDesc& from, const TensorDesc& to) {
  return {{to.dims, {element_strides(from), element_strides(to)}}, {}, element_bytes(to)};
}

std::size_t element_bytes(const TensorDesc& desc) { return dtype_bytes(desc.dtype, 1); }

}  // namespace mezzo::kernels::reference
