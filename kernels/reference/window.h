// The sliding windows of convolutions and pools, one per spatial axis.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {

// first, first + 1, .. last - 1.
struct Range {
  std::int64_t first;
  std::int64_t last;
};

// Window `o` of an axis covers positions o stride - pad_begin + k dilation, 0 <= k < kernel, of
// which those outside [0, in) are padding.
struct Window {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t pad_begin = 0;
  std::int64_t pad_end = 0;

  std::int64_t position(std::int64_t o, std::int64_t k) const {
    return o * stride - pad_begin + k * dilation;
  }
  // Positions from its first to its last element.
  std::int64_t reach() const { return (kernel - 1) * dilation + 1; }
  // The k for which window `o` covers an element of the operand.
  Range inside(std::int64_t o) const { return taps(o, 0, in); }
  // The k for which it covers an element or the padding that the attributes ask for, but nothing
  // beyond that (ceil_mode reaches there).
  Range inside_padded(std::int64_t o) const { return taps(o, -pad_begin, in + pad_end); }

 private:
  // The k with low <= position(o, k) < high.
  Range taps(std::int64_t o, std::int64_t low, std::int64_t high) const {
    const std::int64_t start = position(o, 0);
    const std::int64_t first = start >= low ? 0 : (low - start + dilation - 1) / dilation;
    const std::int64_t last =
        start >= high ? 0 : std::min(kernel, (high - 1 - start) / dilation + 1);
    return {first, std::max(first, last)};
  }
};

// Three spatial axes; a tensor with fewer has leading axes of size 1.
constexpr std::size_t kSpatial = 3;

struct Windows {
  std::array<Window, kSpatial> axis;

  std::int64_t in_pixels() const { return axis[0].in * axis[1].in * axis[2].in; }
  std::int64_t out_pixels() const { return axis[0].out * axis[1].out * axis[2].out; }
  std::int64_t kernel_elems() const { return axis[0].kernel * axis[1].kernel * axis[2].kernel; }
};

// Reads strides, dilations and pads, and kernel_shape where `kernel` is empty (else it must agree).
// `in` are the 1 to 3 spatial dims that the windows slide over. `out` is left at 1.
// InvalidArgument: lists of wrong length, values below 1 (pads: 0) or above 2^31 - 1.
StatusOr<Windows> read_windows(const Operands& operands, const Dims& in, Dims kernel);

// Sets `out` of every axis: the number of windows that fit, with `ceil` also those that start
// inside or on the leading padding and end outside. InvalidArgument if none fits.
Status set_window_counts(const Operands& operands, bool ceil, Windows& windows);

// dims[2..] of a tensor N C D1..
Dims spatial_dims(const Dims& dims);

// The `out` of the last `rank` axes.
Dims out_dims(const Windows& windows, std::size_t rank);

}  // namespace mezzo::kernels::reference
