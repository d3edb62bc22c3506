#include "kernels/reference/nest.h"

namespace mezzo::kernels::reference {

Nest make_nest(const TensorDesc& x, const std::vector<bool>& reduced, const Dims& y_strides) {
  const Dims strides = element_strides(x);
  Nest nest;
  std::size_t kept = 0;
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    if (reduced[d]) {
      nest.inner.dims.push_back(x.dims[d]);
      nest.inner.strides[0].push_back(strides[d]);
      nest.count *= x.dims[d];
    } else {
      nest.outer.dims.push_back(x.dims[d]);
      nest.outer.strides[0].push_back(strides[d]);
      nest.outer.strides[1].push_back(y_strides[kept++]);
    }
  }
  return nest;
}

Dims kept_strides(const TensorDesc& y, const std::vector<bool>& reduced) {
  Dims strides = element_strides(y);
  if (strides.size() != reduced.size()) return strides;  // without keepdims: all are kept
  Dims kept;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (!reduced[d]) kept.push_back(strides[d]);
  }
  return kept;
}

}  // namespace mezzo::kernels::reference
