#include "kernels/reference/pool_shape.h"

#include "compiler/support/text.h"

namespace mezzo::kernels::reference {

StatusOr<PoolShape> read_pool(const Operands& operands, const TensorDesc& x) {
  const Dims& dims = x.dims;
  if (dims.size() < 3 || dims.size() > 2 + kSpatial) {
    return operands.error("expected activations of rank 3 to 5, got " + format_dims(dims));
  }
  MEZZO_ASSIGN_OR_RETURN(const bool ceil, operands.flag("ceil_mode", false));
  PoolShape shape;
  shape.planes = dims[0] * dims[1];
  MEZZO_ASSIGN_OR_RETURN(shape.windows, read_windows(operands, spatial_dims(dims), {}));
  MEZZO_RETURN_IF_ERROR(set_window_counts(operands, ceil, shape.windows));
  return shape;
}

Dims pooled_dims(const Dims& x, const Windows& windows) {
  Dims dims = {x[0], x[1]};
  for (const std::int64_t dim : out_dims(windows, x.size() - 2)) dims.push_back(dim);
  return dims;
}

}  // namespace mezzo::kernels::reference
