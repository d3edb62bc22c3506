#include "kernels/cpu/pool.h"

namespace mezzo::kernels::cpu {

Range PoolAxis::taps_between(Int o, Int low, Int high) const {
  const Int start = position(o, 0);
  const Int first = start >= low ? 0 : ceil_div(low - start, dilation);
  const Int last = start >= high ? 0 : std::min(kernel, (high - 1 - start) / dilation + 1);
  return {first, std::max(first, last)};
}

Int PoolAxis::count(Int o, bool include_pad) const {
  const Range range = include_pad ? taps_between(o, -pad_begin, in + pad_end) : taps(o);
  return range.last - range.first;
}

Range PoolAxis::windows(Int k) const {
  const Int shift = pad_begin - k * dilation;  // position = o stride - shift
  const Int first = shift > 0 ? ceil_div(shift, stride) : 0;
  const Int end = in + shift;
  const Int last = end > 0 ? std::min(out, ceil_div(end, stride)) : 0;
  return {first, std::max(first, last)};
}

PoolShape PoolShape::of(const KernelRequest& request, const TensorDesc& large,
                        const TensorDesc& small) {
  PoolShape shape;
  shape.n = large.dims[0];
  shape.channels = large.dims[1];
  shape.channels_last = large.layout == Layout::kChannelsLast;
  const std::size_t rank = large.dims.size() - 2;
  const auto list = [&](const char* name, std::size_t size, Int fallback) {
    Dims values = request.attributes.get_ints(name);
    if (values.empty()) values.assign(size, fallback);
    return values;
  };
  const Dims kernel = list("kernel_shape", rank, 1);
  const Dims strides = list("strides", rank, 1);
  const Dims dilations = list("dilations", rank, 1);
  const Dims pads = list("pads", 2 * rank, 0);
  for (std::size_t i = 0; i < rank; ++i) {
    shape.axis[3 - rank + i] = {large.dims[2 + i], small.dims[2 + i], kernel[i],     strides[i],
                                dilations[i],      pads[i],           pads[rank + i]};
  }
  return shape;
}

}  // namespace mezzo::kernels::cpu
