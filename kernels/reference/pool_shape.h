// The shapes of a pool and the loops over its windows.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/reference/window.h"

namespace mezzo::kernels::reference {

struct PoolShape {
  std::int64_t planes = 0;  // N C
  Windows windows;
};

// Reads the attributes for windows over `x` and sets the window counts.
StatusOr<PoolShape> read_pool(const Operands& operands, const TensorDesc& x);

// [N, C, windows...]
Dims pooled_dims(const Dims& x, const Windows& windows);

// Calls visit(pixel) for the elements of window (od, oh, ow) that lie inside x; pixel counts
// row-major within the plane.
template <typename Visit>
void for_each_inside(const Windows& windows, const std::array<std::int64_t, kSpatial>& o,
                     Visit&& visit) {
  const auto& [d, h, w] = windows.axis;
  const Range kd = d.inside(o[0]);
  const Range kh = h.inside(o[1]);
  const Range kw = w.inside(o[2]);
  for (std::int64_t i = kd.first; i < kd.last; ++i) {
    for (std::int64_t j = kh.first; j < kh.last; ++j) {
      const std::int64_t row = (d.position(o[0], i) * h.in + h.position(o[1], j)) * w.in;
      for (std::int64_t k = kw.first; k < kw.last; ++k) visit(row + w.position(o[2], k));
    }
  }
}

// Calls visit(plane, window, y index) for every window of every plane.
template <typename Visit>
void for_each_window(const PoolShape& shape, Visit&& visit) {
  const auto& [d, h, w] = shape.windows.axis;
  std::int64_t place = 0;
  for (std::int64_t plane = 0; plane < shape.planes; ++plane) {
    for (std::int64_t od = 0; od < d.out; ++od) {
      for (std::int64_t oh = 0; oh < h.out; ++oh) {
        for (std::int64_t ow = 0; ow < w.out; ++ow) {
          visit(plane, std::array<std::int64_t, kSpatial>{od, oh, ow}, place++);
        }
      }
    }
  }
}

}  // namespace mezzo::kernels::reference
