#include "compiler/ops/window.h"

#include <algorithm>
#include <limits>
#include <string>

#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

// No window of a real model comes near; keeps the arithmetic below from overflowing.
constexpr std::int64_t kMostExtent = std::int64_t{1} << 31;

Status check_ints(const Node& node, std::string_view name, const std::vector<std::int64_t>& values,
                  std::size_t expected, std::int64_t least) {
  if (values.size() != expected) {
    return invalid_argument(describe(node) + ": attribute " + std::string(name) + ": expected " +
                            std::to_string(expected) + " numbers, got " +
                            std::to_string(values.size()));
  }
  for (const std::int64_t value : values) {
    if (value < least || value > kMostExtent) {
      return invalid_argument(describe(node) + ": attribute " + std::string(name) + ": " +
                              std::to_string(value) + " is out of range");
    }
  }
  return ok_status();
}

StatusOr<std::vector<Dim>> dims_of(const Node& node, const Value& value) {
  if (value.type.is_tensor() && value.tensor_type().shape &&
      value.tensor_type().shape->size() >= 2) {
    return *value.tensor_type().shape;
  }
  return unimplemented(describe(node) + ": the spatial dimensions of '" + value.name() +
                       "' are unknown (" + to_string(value.type) + ")");
}

// Everything but the pads.
StatusOr<Window> window_without_pads(const Node& node, std::size_t spatial, const Value* weight) {
  Window window;
  window.kernel = node.ints_attribute("kernel_shape");
  if (window.kernel.empty() && weight != nullptr) {
    MEZZO_ASSIGN_OR_RETURN(const std::vector<Dim> dims, dims_of(node, *weight));
    for (std::size_t i = 2; i < dims.size(); ++i) window.kernel.push_back(dims[i].value);
  }
  const std::vector<std::int64_t> ones(spatial, 1);
  window.strides = node.ints_attribute("strides", ones);
  window.dilations = node.ints_attribute("dilations", ones);
  MEZZO_RETURN_IF_ERROR(check_ints(node, "kernel_shape", window.kernel, spatial, 1));
  MEZZO_RETURN_IF_ERROR(check_ints(node, "strides", window.strides, spatial, 1));
  MEZZO_RETURN_IF_ERROR(check_ints(node, "dilations", window.dilations, spatial, 1));
  return window;
}

std::int64_t extent(const Window& window, std::size_t i) {
  return (window.kernel[i] - 1) * window.dilations[i] + 1;
}

Status unknown_extent(const Node& node, const Value& value) {
  return unimplemented(describe(node) + ": auto_pad needs the spatial dimensions of '" +
                       value.name() + "', which is " + to_string(value.type));
}

// Splits `total` into begin and end; the odd one goes to the end if `extra_at_end`.
void split_padding(Window& window, std::size_t i, std::int64_t total, bool extra_at_end) {
  const std::int64_t half = total / 2;
  window.pads[i] = extra_at_end ? half : total - half;
  window.pads[window.kernel.size() + i] = total - window.pads[i];
}

Status resolve_same(const Node& node, const Value& x, const std::vector<Dim>& dims, bool upper,
                    Window& window) {
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    if (!dims[2 + i].known()) return unknown_extent(node, x);
    const std::int64_t size = dims[2 + i].value;
    const std::int64_t stride = window.strides[i];
    const std::int64_t positions = (size + stride - 1) / stride;
    const std::int64_t total =
        std::max<std::int64_t>(0, (positions - 1) * stride + extent(window, i) - size);
    split_padding(window, i, total, upper);
  }
  return ok_status();
}

void write_window(const Window& window, LoweredOp& lowered) {
  for (auto& [name, value] : window_attributes(window))
    set_attribute(lowered, name, std::move(value));
  erase_attribute(lowered, "auto_pad");
}

}  // namespace

StatusOr<Window> window_of(const Node& node, const Value& x, const Value* weight) {
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Dim> dims, dims_of(node, x));
  const std::size_t spatial = dims.size() - 2;
  MEZZO_ASSIGN_OR_RETURN(Window window, window_without_pads(node, spatial, weight));
  const std::string auto_pad = node.string_attribute("auto_pad", "NOTSET");
  window.pads.assign(2 * spatial, 0);
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    window.pads = node.ints_attribute("pads", window.pads);
    MEZZO_RETURN_IF_ERROR(check_ints(node, "pads", window.pads, 2 * spatial, 0));
  } else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    MEZZO_RETURN_IF_ERROR(resolve_same(node, x, dims, auto_pad == "SAME_UPPER", window));
  } else if (auto_pad != "VALID") {
    return invalid_argument(describe(node) +
                            ": attribute auto_pad: expected NOTSET, VALID, SAME_UPPER "
                            "or SAME_LOWER, got " +
                            auto_pad);
  }
  return window;
}

StatusOr<Window> transposed_window_of(const Node& node, const Value& x, const Value& weight,
                                      const Value& y) {
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Dim> x_dims, dims_of(node, x));
  const std::size_t spatial = x_dims.size() - 2;
  MEZZO_ASSIGN_OR_RETURN(Window window, window_without_pads(node, spatial, &weight));
  const std::string auto_pad = node.string_attribute("auto_pad", "NOTSET");
  const bool computed =
      auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER" || node.has_attribute("output_shape");
  window.pads.assign(2 * spatial, 0);
  if (!computed) {
    if (auto_pad == "VALID") return window;
    window.pads = node.ints_attribute("pads", window.pads);
    MEZZO_RETURN_IF_ERROR(check_ints(node, "pads", window.pads, 2 * spatial, 0));
    return window;
  }
  // The pads that lead to the result's dims (ONNX, ConvTranspose).
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Dim> y_dims, dims_of(node, y));
  const auto extra = node.ints_attribute("output_padding", std::vector<std::int64_t>(spatial, 0));
  MEZZO_RETURN_IF_ERROR(check_ints(node, "output_padding", extra, spatial, 0));
  for (std::size_t i = 0; i < spatial; ++i) {
    if (!x_dims[2 + i].known()) return unknown_extent(node, x);
    if (y_dims.size() != x_dims.size() || !y_dims[2 + i].known()) return unknown_extent(node, y);
    const std::int64_t total = window.strides[i] * (x_dims[2 + i].value - 1) + extra[i] +
                               extent(window, i) - y_dims[2 + i].value;
    // Negative: more results than the windows reach; see lower_conv_transpose.
    if (total >= 0) split_padding(window, i, total, auto_pad == "SAME_UPPER");
  }
  return window;
}

std::vector<Builder::NamedValue> window_attributes(const Window& window) {
  return {{"kernel_shape", window.kernel},
          {"strides", window.strides},
          {"pads", window.pads},
          {"dilations", window.dilations}};
}

Status lower_pool(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(node, *node.operand(0), nullptr));
  write_window(window, lowered);
  return ok_status();
}

Status lower_pool_grad(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(node, *node.result(0), nullptr));
  write_window(window, lowered);
  return ok_status();
}

Status lower_conv(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(node, *node.operand(0), node.operand(1)));
  write_window(window, lowered);
  return ok_status();
}

Status lower_qlinear_conv(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(node, *node.operand(0), node.operand(3)));
  write_window(window, lowered);
  return ok_status();
}

// Where the result asked for is larger than what the windows give without pads, the rest is
// output_padding: results behind the last window.
Status lower_conv_transpose(const Node& node, LoweredOp& lowered) {
  MEZZO_RETURN_IF_ERROR(require_operand(node, 1));
  MEZZO_ASSIGN_OR_RETURN(
      const Window window,
      transposed_window_of(node, *node.operand(0), *node.operand(1), *node.result(0)));
  write_window(window, lowered);
  const std::string auto_pad = node.string_attribute("auto_pad", "NOTSET");
  const bool computed =
      auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER" || node.has_attribute("output_shape");
  erase_attribute(lowered, "output_shape");
  if (!computed) return ok_status();
  const auto x = dims_of(node, *node.operand(0));
  const auto y = dims_of(node, *node.result(0));
  if (!x.ok() || !y.ok()) return ok_status();
  std::vector<std::int64_t> extra =
      node.ints_attribute("output_padding", std::vector<std::int64_t>(window.kernel.size(), 0));
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    const std::int64_t covered = window.strides[i] * ((*x)[2 + i].value - 1) + extra[i] +
                                 extent(window, i) - window.pads[i] -
                                 window.pads[window.kernel.size() + i];
    extra[i] += std::max<std::int64_t>(0, (*y)[2 + i].value - covered);
  }
  set_attribute(lowered, "output_padding", extra);
  return ok_status();
}

}  // namespace mezzo
