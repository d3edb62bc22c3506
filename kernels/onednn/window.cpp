#include "kernels/onednn/window.h"

#include <algorithm>

#include "compiler/support/text.h"

namespace mezzo::kernels::onednn {
namespace {

// Far beyond any sensible window, and small enough that sums and products below stay in 64 bits.
constexpr std::int64_t kLargest = std::int64_t{1} << 30;

Status check_list(std::string_view name, const Dims& values, std::size_t count,
                  std::int64_t least) {
  if (values.size() != count) {
    return invalid_argument("attribute '" + std::string(name) + "': expected " +
                            std::to_string(count) + " values, got " +
                            std::to_string(values.size()));
  }
  for (const std::int64_t value : values) {
    if (value < least || value > kLargest) {
      return invalid_argument("attribute '" + std::string(name) + "': value " +
                              std::to_string(value) + " is out of range");
    }
  }
  return ok_status();
}

Status check_ranks(const TensorDesc& x, const TensorDesc& w, const TensorDesc& y) {
  const std::size_t rank = x.dims.size();
  if (rank < 3 || w.dims.size() != rank || y.dims.size() != rank) {
    return invalid_argument("expected activations and weights of equal rank 3 or more, got " +
                            format_dims(x.dims) + ", " + format_dims(w.dims) + " and " +
                            format_dims(y.dims));
  }
  if (rank > 5) return unimplemented("more than 3 spatial dimensions");
  if (x.elems() == 0 || w.elems() == 0 || y.elems() == 0) return unimplemented("empty tensors");
  for (const TensorDesc* desc : {&x, &w, &y}) {
    for (const std::int64_t dim : desc->dims) {
      if (dim > kLargest) return unimplemented("dimensions beyond 2^30");
    }
  }
  return ok_status();
}

Status check_sizes(const ConvGeometry& geometry, const TensorDesc& w) {
  const auto& [x, grouped, y, group, window] = geometry;
  bool fits = group >= 1 && x[0] == y[0] && w.dims[0] == y[1] && y[1] % group == 0 &&
              x[1] % group == 0 && w.dims[1] == x[1] / group;
  bool surplus = false;  // of a transposed convolution: results behind the last window
  for (std::size_t i = 0; i + 2 < x.size(); ++i) {
    const std::int64_t count = window_count(window, i, x[i + 2]);
    fits = fits && count >= y[i + 2];
    surplus = surplus || count > y[i + 2];
  }
  if (fits && surplus) return unimplemented("more positions than windows");
  if (fits) return ok_status();
  return invalid_argument("input " + format_dims(x) + " and weights " + format_dims(w.dims) +
                          " in " + std::to_string(group) + " group(s) do not give " +
                          format_dims(y) + " with these strides, pads and dilations");
}

}  // namespace

StatusOr<Window> read_window(const Attributes& attributes, const Dims& kernel) {
  const std::string auto_pad = attributes.get_string("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET" && auto_pad != "VALID") {
    return unimplemented("auto_pad " + auto_pad + " that is not resolved to pads");
  }
  const std::size_t count = kernel.size();
  Window window;
  window.kernel = attributes.get_ints("kernel_shape", kernel);
  MEZZO_RETURN_IF_ERROR(check_list("kernel_shape", window.kernel, count, 1));
  if (window.kernel != kernel) {
    return invalid_argument("attribute 'kernel_shape' is " + format_dims(window.kernel) +
                            ", but the weights have " + format_dims(kernel));
  }
  window.strides = attributes.get_ints("strides", Dims(count, 1));
  MEZZO_RETURN_IF_ERROR(check_list("strides", window.strides, count, 1));
  window.dilations = attributes.get_ints("dilations", Dims(count, 1));
  MEZZO_RETURN_IF_ERROR(check_list("dilations", window.dilations, count, 1));
  for (std::int64_t& dilation : window.dilations) --dilation;
  const Dims pads = attributes.get_ints("pads", Dims(2 * count, 0));
  MEZZO_RETURN_IF_ERROR(check_list("pads", pads, 2 * count, -kLargest));
  if (std::any_of(pads.begin(), pads.end(), [](std::int64_t pad) { return pad < 0; })) {
    return unimplemented("negative pads");
  }
  const auto half = pads.begin() + static_cast<std::ptrdiff_t>(count);
  window.pads_begin.assign(pads.begin(), half);
  window.pads_end.assign(half, pads.end());
  return window;
}

std::int64_t window_count(const Window& window, std::size_t i, std::int64_t size) {
  const std::int64_t extent = (window.kernel[i] - 1) * (window.dilations[i] + 1) + 1;
  const std::int64_t room = size + window.pads_begin[i] + window.pads_end[i] - extent;
  return room < 0 ? 0 : room / window.strides[i] + 1;
}

StatusOr<ConvGeometry> read_convolution(const Attributes& attributes, const TensorDesc& x,
                                        const TensorDesc& w, const TensorDesc& y) {
  MEZZO_RETURN_IF_ERROR(check_ranks(x, w, y));
  ConvGeometry geometry;
  geometry.x = x.dims;
  geometry.w = w.dims;
  geometry.y = y.dims;
  geometry.group = attributes.get_int("group", 1);
  MEZZO_ASSIGN_OR_RETURN(geometry.window,
                         read_window(attributes, Dims(w.dims.begin() + 2, w.dims.end())));
  MEZZO_RETURN_IF_ERROR(check_sizes(geometry, w));
  if (geometry.group > 1) {
    geometry.w[0] /= geometry.group;
    geometry.w.insert(geometry.w.begin(), geometry.group);
  }
  return geometry;
}

}  // namespace mezzo::kernels::onednn
