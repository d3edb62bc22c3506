// The sliding window of convolutions and pools, as the attributes of a request describe it.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/support/status.h"
#include "kernels/kernel.h"
#include "kernels/onednn/engine.h"

namespace mezzo::kernels::onednn {

// One entry per spatial dimension.
struct Window {
  Dims kernel;
  Dims strides;
  Dims dilations;  // the library's: 0 where ONNX says 1
  Dims pads_begin;
  Dims pads_end;
};

// Reads strides, dilations and pads for `kernel`. InvalidArgument for wrong counts or values;
// Unimplemented for negative pads and unresolved auto_pad.
StatusOr<Window> read_window(const Attributes& attributes, const Dims& kernel);

// Size of the result along spatial dimension i, rounded down; 0 or less: the window does not fit.
std::int64_t window_count(const Window& window, std::size_t i, std::int64_t size);

// A convolution: y = conv(x, w). Also what gradients and ConvTranspose are described by: there x
// or w is the result, and the roles of x and y may be exchanged.
struct ConvGeometry {
  Dims x;  // N C D1..
  Dims w;  // M C/group K1.., or group M/group C/group K1.. where group > 1
  Dims y;  // N M E1..
  std::int64_t group = 1;
  Window window;
};

// REQUIRES: the three are present. InvalidArgument where their dims or the attributes disagree,
// Unimplemented for more than 3 spatial dimensions and for empty tensors.
StatusOr<ConvGeometry> read_convolution(const Attributes& attributes, const TensorDesc& x,
                                        const TensorDesc& w, const TensorDesc& y);

}  // namespace mezzo::kernels::onednn
