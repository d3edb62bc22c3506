#include "kernels/reference/loop.h"

namespace mezzo::kernels::reference {

Dims element_strides(const TensorDesc& desc) {
  const std::size_t rank = desc.dims.size();
  Dims strides(rank);
  std::int64_t stride = 1;
  const bool channels_last = desc.layout == Layout::kChannelsLast;
  if (channels_last) {
    strides[1] = 1;
    stride = desc.dims[1];
  }
  for (std::size_t d = rank; d > 0; --d) {
    if (channels_last && d - 1 == 1) continue;
    strides[d - 1] = stride;
    stride *= desc.dims[d - 1];
  }
  return strides;
}

Dims broadcast_strides(const TensorDesc& desc, const Dims& dims) {
  const Dims own = element_strides(desc);
  Dims strides(dims.size(), 0);
  const std::size_t lead = dims.size() - own.size();
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (desc.dims[d] != 1) strides[lead + d] = own[d];
  }
  return strides;
}

bool broadcasts_to(const Dims& from, const Dims& to) {
  if (from.size() > to.size()) return false;
  const std::size_t lead = to.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] != 1 && from[d] != to[lead + d]) return false;
  }
  return true;
}

std::optional<Dims> broadcast_dims(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims dims = longer;
  const std::size_t lead = longer.size() - shorter.size();
  for (std::size_t d = 0; d < shorter.size(); ++d) {
    std::int64_t& dim = dims[lead + d];
    if (dim == 1) {
      dim = shorter[d];
    } else if (shorter[d] != 1 && shorter[d] != dim) {
      return std::nullopt;
    }
  }
  return dims;
}

}  // namespace mezzo::kernels::reference
