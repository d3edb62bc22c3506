// The shapes of a convolution and the loop over its products, for floating and quantised kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/reference/window.h"

namespace mezzo::kernels::reference {

// Shapes of one convolution: x[n, c, in], w[m, c / groups, kernel], y[n, m, out].
struct ConvShape {
  std::int64_t n = 0;
  std::int64_t c = 0;
  std::int64_t m = 0;
  std::int64_t groups = 1;
  Windows windows;
};

// The windows `o` of an axis for which kernel position k lies inside the operand.
inline Range windows_inside(const Window& window, std::int64_t k) {
  const std::int64_t shift = window.pad_begin - k * window.dilation;  // o stride >= shift
  const std::int64_t first = shift > 0 ? (shift + window.stride - 1) / window.stride : 0;
  const std::int64_t room = window.in - 1 + shift;  // o stride <= room
  const std::int64_t last = room < 0 ? 0 : std::min(window.out, room / window.stride + 1);
  return {first, last};
}

// Calls visit(x index, w index, y index) for every product of one pair of channel planes.
template <typename Visit>
void for_each_tap(const Windows& windows, std::int64_t x_plane, std::int64_t w_plane,
                  std::int64_t y_plane, Visit&& visit) {
  const auto& [d, h, w] = windows.axis;
  std::int64_t tap = w_plane;
  for (std::int64_t kd = 0; kd < d.kernel; ++kd) {
    const Range rd = windows_inside(d, kd);
    for (std::int64_t kh = 0; kh < h.kernel; ++kh) {
      const Range rh = windows_inside(h, kh);
      for (std::int64_t kw = 0; kw < w.kernel; ++kw, ++tap) {
        const Range rw = windows_inside(w, kw);
        for (std::int64_t od = rd.first; od < rd.last; ++od) {
          for (std::int64_t oh = rh.first; oh < rh.last; ++oh) {
            const std::int64_t x_row =
                x_plane + (d.position(od, kd) * h.in + h.position(oh, kh)) * w.in;
            const std::int64_t y_row = y_plane + (od * h.out + oh) * w.out;
            for (std::int64_t ow = rw.first; ow < rw.last; ++ow) {
              visit(x_row + w.position(ow, kw), tap, y_row + ow);
            }
          }
        }
      }
    }
  }
}

// The same for the whole convolution.
template <typename Visit>
void for_each_product(const ConvShape& s, Visit&& visit) {
  const std::int64_t c_group = s.c / s.groups;
  const std::int64_t m_group = s.m / s.groups;
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t m = 0; m < s.m; ++m) {
      for (std::int64_t c = 0; c < c_group; ++c) {
        const std::int64_t x_channel = m / m_group * c_group + c;
        for_each_tap(s.windows, (n * s.c + x_channel) * s.windows.in_pixels(),
                     (m * c_group + c) * s.windows.kernel_elems(),
                     (n * s.m + m) * s.windows.out_pixels(), visit);
      }
    }
  }
}

// [n, channels, spatial...]
Dims activation_dims(std::int64_t n, std::int64_t channels, const Dims& spatial);

// Checks x (or dx) and w (or dw) against the attributes and computes the dims of y.
StatusOr<ConvShape> read_conv_shape(const Operands& operands, const TensorDesc& x,
                                    const TensorDesc& w);

}  // namespace mezzo::kernels::reference
