#include "kernels/reference/window.h"

#include <limits>

#include "compiler/support/text.h"

namespace mezzo::kernels::reference {
namespace {

// Products of two such values and sums of a few products fit into 64 bits.
constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();

StatusOr<Dims> read_list(const Operands& operands, std::string_view name, std::size_t size,
                         std::int64_t lowest, std::int64_t fallback) {
  Dims values = operands.attributes().get_ints(name);
  if (values.empty()) values.assign(size, fallback);
  if (values.size() != size) {
    return operands.error("attribute '" + std::string(name) + "': expected " +
                          std::to_string(size) + " values, got " + format_dims(values));
  }
  for (const std::int64_t value : values) {
    if (value < lowest || value > kLargest) {
      return operands.error("attribute '" + std::string(name) + "': " + format_dims(values) +
                            " holds a value outside " + std::to_string(lowest) + " to 2^31 - 1");
    }
  }
  return values;
}

}  // namespace

StatusOr<Windows> read_windows(const Operands& operands, const Dims& in, Dims kernel) {
  const std::size_t rank = in.size();
  const std::string auto_pad = operands.attributes().get_string("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET" && !auto_pad.empty()) {
    return unimplemented(operands.op() + ": auto_pad '" + auto_pad +
                         "' must be resolved to the attribute 'pads'");
  }
  if (kernel.empty() || operands.attributes().has("kernel_shape")) {
    MEZZO_ASSIGN_OR_RETURN(const Dims shape, read_list(operands, "kernel_shape", rank, 1, 0));
    if (!kernel.empty() && shape != kernel) {
      return operands.error("attribute 'kernel_shape' is " + format_dims(shape) +
                            ", but the weights have " + format_dims(kernel));
    }
    kernel = shape;
  }
  MEZZO_ASSIGN_OR_RETURN(const Dims strides, read_list(operands, "strides", rank, 1, 1));
  MEZZO_ASSIGN_OR_RETURN(const Dims dilations, read_list(operands, "dilations", rank, 1, 1));
  MEZZO_ASSIGN_OR_RETURN(const Dims pads, read_list(operands, "pads", 2 * rank, 0, 0));
  Windows windows;
  for (std::size_t i = 0; i < rank; ++i) {
    if (kernel[i] < 1 || kernel[i] > kLargest || in[i] > kLargest) {
      return operands.error("window " + format_dims(kernel) + " over " + format_dims(in) +
                            ": sizes must be 1 to 2^31 - 1");
    }
    Window& window = windows.axis[kSpatial - rank + i];
    window.in = in[i];
    window.kernel = kernel[i];
    window.stride = strides[i];
    window.dilation = dilations[i];
    window.pad_begin = pads[i];
    window.pad_end = pads[rank + i];
  }
  return windows;
}

Status set_window_counts(const Operands& operands, bool ceil, Windows& windows) {
  for (Window& window : windows.axis) {
    const std::int64_t slack = window.in + window.pad_begin + window.pad_end - window.reach();
    if (slack < 0) {
      return operands.error("a window of " + std::to_string(window.reach()) +
                            " does not fit into " + std::to_string(window.in) + " and padding " +
                            std::to_string(window.pad_begin) + " + " +
                            std::to_string(window.pad_end));
    }
    window.out = slack / window.stride + 1;
    if (ceil && slack % window.stride != 0) {
      // One more window, unless it would start in the trailing padding.
      if (window.out * window.stride < window.in + window.pad_begin) ++window.out;
    }
  }
  return ok_status();
}

Dims spatial_dims(const Dims& dims) { return Dims(dims.begin() + 2, dims.end()); }

Dims out_dims(const Windows& windows, std::size_t rank) {
  Dims dims;
  for (std::size_t i = kSpatial - rank; i < kSpatial; ++i) dims.push_back(windows.axis[i].out);
  return dims;
}

}  // namespace mezzo::kernels::reference
