// One axis along which the windows of a pool or a convolution slide.
#pragma once

#include <cstdint>

#include "kernels/formulas/host_device.h"

namespace mezzo::kernels {

// first, first + 1, .. last - 1.
struct WindowRange {
  std::int64_t first, last;

  MEZZO_HD std::int64_t count() const { return last - first; }
};

// Window `o` covers positions o stride - pad_begin + k dilation, 0 <= k < kernel, of which those
// outside [0, in) are padding. Sizes fit into 32 bits, sums and products of two into 64.
struct WindowAxis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;

  MEZZO_HD std::int64_t position(std::int64_t o, std::int64_t k) const {
    return o * stride - pad_begin + k * dilation;
  }
  // The k for which window `o` covers an element.
  MEZZO_HD WindowRange inside(std::int64_t o) const { return taps(o, 0, in); }
  // The k for which it covers an element or the padding that the attributes ask for, but nothing
  // beyond that (where ceil_mode reaches).
  MEZZO_HD WindowRange inside_padded(std::int64_t o) const {
    return taps(o, -pad_begin, in + pad_end);
  }
  // The windows that may cover `position`: those o among them do for which tap(position, o) >= 0.
  MEZZO_HD WindowRange covering(std::int64_t position) const {
    const std::int64_t from = position + pad_begin - (kernel - 1) * dilation;
    const std::int64_t first = from <= 0 ? 0 : (from + stride - 1) / stride;
    const std::int64_t most = (position + pad_begin) / stride + 1;
    const std::int64_t last = most < out ? most : out;
    return {first, last > first ? last : first};
  }
  // The k with position(o, k) == position, or -1. REQUIRES: o is in covering(position).
  MEZZO_HD std::int64_t tap(std::int64_t position, std::int64_t o) const {
    const std::int64_t distance = position + pad_begin - o * stride;
    if (dilation == 1) return distance;
    return distance % dilation == 0 ? distance / dilation : -1;
  }

 private:
  // The k with low <= position(o, k) < high.
  MEZZO_HD WindowRange taps(std::int64_t o, std::int64_t low, std::int64_t high) const {
    const std::int64_t start = position(o, 0);
    std::int64_t first = start >= low ? 0 : low - start;
    std::int64_t last = start >= high ? 0 : high - start;
    if (dilation != 1) {
      first = (first + dilation - 1) / dilation;
      last = (last + dilation - 1) / dilation;
    }
    if (last > kernel) last = kernel;
    return {first, last > first ? last : first};
  }
};

}  // namespace mezzo::kernels
