#include "kernels/reference/conv_shape.h"

#include "compiler/support/text.h"

namespace mezzo::kernels::reference {

Dims activation_dims(std::int64_t n, std::int64_t channels, const Dims& spatial) {
  Dims dims = {n, channels};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

StatusOr<ConvShape> read_conv_shape(const Operands& operands, const TensorDesc& x,
                                    const TensorDesc& w) {
  const std::size_t rank = x.dims.size();
  if (rank < 3 || rank > 2 + kSpatial) {
    return operands.error("expected activations of rank 3 to 5, got " + format_dims(x.dims));
  }
  if (w.dims.size() != rank) {
    return operands.error("expected weights of rank " + std::to_string(rank) + ", got " +
                          format_dims(w.dims));
  }
  ConvShape shape;
  shape.n = x.dims[0];
  shape.c = x.dims[1];
  shape.m = w.dims[0];
  shape.groups = operands.attributes().get_int("group", 1);
  if (shape.groups < 1 || shape.c % shape.groups != 0 || shape.m % shape.groups != 0) {
    return operands.error("attribute 'group' is " + std::to_string(shape.groups) +
                          ", expected a divisor of the channels " + std::to_string(shape.c) +
                          " and " + std::to_string(shape.m));
  }
  if (w.dims[1] != shape.c / shape.groups) {
    return operands.error("expected weights of " + std::to_string(shape.c / shape.groups) +
                          " channels (" + std::to_string(shape.c) + " in " +
                          std::to_string(shape.groups) + " groups), got " + format_dims(w.dims));
  }
  MEZZO_ASSIGN_OR_RETURN(shape.windows,
                         read_windows(operands, spatial_dims(x.dims), spatial_dims(w.dims)));
  MEZZO_RETURN_IF_ERROR(set_window_counts(operands, false, shape.windows));
  return shape;
}

}  // namespace mezzo::kernels::reference
