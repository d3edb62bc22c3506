// ONNX Resize as tables: for every resized dim and every index along the result, which elements of
// the operand are taken, and with what weights. Formulas: ONNX, operator Resize.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/support/status.h"
#include "kernels/kernel.h"

namespace mezzo::kernels {

// Index j along the result is sum over t of weights[j * taps + t] x[indices[j * taps + t]].
struct ResampledAxis {
  std::size_t dim = 0;
  std::int64_t in = 0, out = 0;
  std::int64_t taps = 1;
  std::vector<std::int64_t> indices;  // in [0, in)
  std::vector<double> weights;
  std::vector<bool> outside;  // tf_crop_and_resize: the result is the extrapolation value; or empty
};

struct Resampling {
  bool nearest = false;             // one tap of weight 1 everywhere; never of a gradient
  std::vector<ResampledAxis> axes;  // ascending; those that keep everything are left out
  double extrapolation = 0.0;

  bool extrapolates() const;
};

// From a request of operator Resize: operand x, result y, attributes as in kernels/README.md.
// InvalidArgument: ranks, sizes, scales or modes that make no sense.
StatusOr<Resampling> read_resampling(const KernelRequest& request);

// From a request of ResizeGrad, dy -> dx with the forward attributes: the transposed tables, so
// that blending dy by them gives dx. An element of x that no index takes has taps of weight 0.
StatusOr<Resampling> read_resampling_grad(const KernelRequest& request);

// The layout of an operand and its result, one of which may lie alike in all layouts.
inline Layout common_layout(const TensorDesc& x, const TensorDesc& y) {
  return y.layout_matters() ? y.layout : x.layout;
}

// Brings dims, of operand and result, and axes into the order of memory: for channels-last tensors
// N C D1..Dk becomes N D1..Dk C.
void to_memory_order(Layout layout, Resampling& resampling, std::vector<std::int64_t>& x,
                     std::vector<std::int64_t>& y);

}  // namespace mezzo::kernels
