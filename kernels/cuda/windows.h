// The windows of a request as kernels take them, and the numbering of activations.
#pragma once

#include <cstdint>

#include "kernels/cuda/index.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"
#include "kernels/formulas/window.h"

namespace mezzo::kernels::cuda {

// Three spatial axes; a tensor with fewer has leading axes of size 1.
inline constexpr int kSpatial = 3;

struct Windows {
  WindowAxis axis[kSpatial];
};

// From the attributes, for windows that slide over the spatial dims of `x` and give those of `y`.
// `kernel`: of the weights; empty: kernel_shape. REQUIRES: a reference kernel took the request.
inline Windows read_windows(const KernelRequest& request, const TensorDesc& x, const TensorDesc& y,
                            Dims kernel = {}) {
  const std::size_t rank = x.dims.size() - 2;
  if (kernel.empty()) kernel = request.attributes.get_ints("kernel_shape", Dims(rank, 1));
  const auto list = [&](std::string_view name, std::size_t size, Int fallback) {
    Dims values = request.attributes.get_ints(name);
    if (values.empty()) values.assign(size, fallback);
    return values;
  };
  const Dims strides = list("strides", rank, 1);
  const Dims dilations = list("dilations", rank, 1);
  const Dims pads = list("pads", 2 * rank, 0);
  Windows windows;
  for (std::size_t i = 0; i < rank; ++i) {
    windows.axis[kSpatial - rank + i] = {x.dims[i + 2], y.dims[i + 2], kernel[i],     strides[i],
                                         dilations[i],  pads[i],       pads[rank + i]};
  }
  return windows;
}

// Activations [N, C, D, H, W] in either layout, numbered in the order of memory.
struct Places {
  Divisor channels, depth, height, width;
  std::int32_t channels_last = 0;

  struct Place {
    Int image, channel, at[kSpatial];
  };
  __host__ __device__ Place place(Int number) const {
    Place found{};
    if (channels_last != 0) number = channels.divide(number, found.channel);
    number = width.divide(number, found.at[2]);
    number = height.divide(number, found.at[1]);
    number = depth.divide(number, found.at[0]);
    if (channels_last == 0) number = channels.divide(number, found.channel);
    found.image = number;
    return found;
  }
  __host__ __device__ Int pixels() const { return depth.value() * height.value() * width.value(); }
  // Elements between neighbouring pixels of a channel.
  __host__ __device__ Int pixel_step() const { return channels_last != 0 ? channels.value() : 1; }
  // The first pixel of a channel.
  __host__ __device__ Int plane(Int image, Int channel) const {
    if (channels_last != 0) return image * pixels() * channels.value() + channel;
    return (image * channels.value() + channel) * pixels();
  }
  __host__ __device__ Int pixel(Int d, Int h, Int w) const {
    return (d * height.value() + h) * width.value() + w;
  }
};

// REQUIRES: rank 3 to 5.
inline Places places_of(const TensorDesc& x) {
  const auto spatial = [&](std::size_t i) {  // counted from the last
    return x.dims.size() > 2 + i ? x.dims[x.dims.size() - 1 - i] : 1;
  };
  return {Divisor(x.dims[1]), Divisor(spatial(2)), Divisor(spatial(1)), Divisor(spatial(0)),
          is_channels_last(x) ? 1 : 0};
}

// visit(pixel of x, d, h, w) for the elements of window o that lie inside.
template <typename Visit>
__device__ __forceinline__ void for_each_inside(const Windows& windows, const Int (&o)[kSpatial],
                                                const Places& x, Visit&& visit) {
  const WindowRange kd = windows.axis[0].inside(o[0]);
  const WindowRange kh = windows.axis[1].inside(o[1]);
  const WindowRange kw = windows.axis[2].inside(o[2]);
  for (Int i = kd.first; i < kd.last; ++i) {
    const Int d = windows.axis[0].position(o[0], i);
    for (Int j = kh.first; j < kh.last; ++j) {
      const Int row = x.pixel(d, windows.axis[1].position(o[1], j), 0);
      for (Int k = kw.first; k < kw.last; ++k) visit(row + windows.axis[2].position(o[2], k));
    }
  }
}

}  // namespace mezzo::kernels::cuda
