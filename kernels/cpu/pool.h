// The windows of pooling, and how a plane (one image of one channel) or all channels of a pixel are
// read and written.
//
// Letters: N batch, C channels, P and Q the pixels of the larger and the pooled image. Row-major,
// a unit of work is a plane, and vectors run along a row of results; channels-last, a unit is a
// row of results of one image, and vectors run across the channels.
#pragma once

#include <array>

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {

struct Range {
  Int first;
  Int last;  // one behind
};

// Window o covers positions o stride - pad_begin + k dilation for 0 <= k < kernel.
struct PoolAxis {
  Int in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;

  Int position(Int o, Int k) const { return o * stride - pad_begin + k * dilation; }
  // The k for which window o covers an element of the image.
  Range taps(Int o) const { return taps_between(o, 0, in); }
  // By how many positions of window o AveragePool divides along this axis.
  Int count(Int o, bool include_pad) const;
  // The o for which tap k lies in the image.
  Range windows(Int k) const;

 private:
  Range taps_between(Int o, Int low, Int high) const;
};

struct PoolShape {
  Int n = 1, channels = 1;
  bool channels_last = false;
  std::array<PoolAxis, 3> axis;  // outer ones of size 1 for images of fewer dims

  // `large`: the image the windows slide over; `small`: the pooled one.
  static PoolShape of(const KernelRequest& request, const TensorDesc& large,
                      const TensorDesc& small);

  Int large_pixels() const { return axis[0].in * axis[1].in * axis[2].in; }
  Int small_pixels() const { return axis[0].out * axis[1].out * axis[2].out; }
  Int row_start(Int d, Int h) const { return (d * axis[1].in + h) * axis[2].in; }
};

// visit(row of pixels in the image, i.e. index of its first pixel) for the rows that window (od,
// oh) touches, in order.
template <typename Visit>
void for_window_rows(const PoolShape& shape, Int od, Int oh, Visit&& visit) {
  const auto& [depth, height, width] = shape.axis;
  const Range kd = depth.taps(od);
  const Range kh = height.taps(oh);
  for (Int i = kd.first; i < kd.last; ++i) {
    for (Int j = kh.first; j < kh.last; ++j) {
      visit(shape.row_start(depth.position(od, i), height.position(oh, j)));
    }
  }
}

}  // namespace mezzo::kernels::cpu
