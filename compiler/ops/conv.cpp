// Convolutions. The gradients' nodes (ConvGradInput, ConvGradWeight, ConvGradBias) carry the window
// with pads resolved; their results' dims come from the forward operands.
#include "compiler/ops/families.h"
#include "compiler/ops/gradient_helpers.h"
#include "compiler/ops/image_rules.h"
#include "compiler/ops/layer_gradients.h"
#include "compiler/ops/window.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

std::vector<Builder::NamedValue> conv_attributes(const Node& node, const Window& window) {
  auto attributes = window_attributes(window);
  attributes.emplace_back("group", node.int_attribute("group", 1));
  return attributes;
}

StatusOr<Gradients> grad_conv(GradientContext& ctx) {
  const Node& node = ctx.node;
  Value* x = node.operand(0);
  Value* w = node.operand(1);
  Value* dy = ctx.result_grads[0];
  MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(node, *x, w));
  const auto attributes = conv_attributes(node, window);
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) grads[0] = op_like(ctx, "ConvGradInput", {dy, w}, attributes, *x);
  if (ctx.wanted[1]) grads[1] = op_like(ctx, "ConvGradWeight", {dy, x}, attributes, *w);
  if (grads.size() > 2 && ctx.wanted[2]) {
    grads[2] = op_like(ctx, "ConvGradBias", {dy}, {}, *node.operand(2));
  }
  return grads;
}

// dy without what lies a stride or more behind the last window: output_padding and output_shape may
// add that much, and Conv would find another window there.
Value* without_surplus(GradientContext& ctx, const Window& window) {
  Value* dy = ctx.result_grads[0];
  const Value& x = *ctx.node.operand(0);
  if (!x.type.is_tensor() || !dy->type.is_tensor() || !x.tensor_type().shape ||
      !dy->tensor_type().shape) {
    return dy;
  }
  const std::vector<Dim>& from = *x.tensor_type().shape;
  const std::vector<Dim>& to = *dy->tensor_type().shape;
  const std::size_t spatial = window.kernel.size();
  std::vector<std::int64_t> starts, ends, axes;
  for (std::size_t d = 0; d < spatial && from.size() == spatial + 2 && to.size() == from.size();
       ++d) {
    if (!from[d + 2].known() || !to[d + 2].known()) continue;
    const std::int64_t reached = window.strides[d] * (from[d + 2].value - 1) +
                                 (window.kernel[d] - 1) * window.dilations[d] + 1 - window.pads[d] -
                                 window.pads[spatial + d];
    if (to[d + 2].value - reached < window.strides[d]) continue;
    starts.push_back(0);
    ends.push_back(reached);
    axes.push_back(static_cast<std::int64_t>(d + 2));
  }
  if (axes.empty()) return dy;
  Builder& builder = ctx.builder;
  return builder.op("Slice", {dy, builder.ints(starts), builder.ints(ends), builder.ints(axes)});
}

// y is what Conv's input gradient would be, so Conv and its weight gradient, with the roles of
// input and output exchanged, are the gradients.
StatusOr<Gradients> grad_conv_transpose(GradientContext& ctx) {
  const Node& node = ctx.node;
  Value* x = node.operand(0);
  Value* w = node.operand(1);
  Value* dy = ctx.result_grads[0];
  MEZZO_ASSIGN_OR_RETURN(const Window window, transposed_window_of(node, *x, *w, *node.result()));
  const auto attributes = conv_attributes(node, window);
  Value* near = without_surplus(ctx, window);
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) grads[0] = ctx.builder.op("Conv", {near, w}, attributes);
  if (ctx.wanted[1]) grads[1] = op_like(ctx, "ConvGradWeight", {x, near}, attributes, *w);
  if (grads.size() > 2 && ctx.wanted[2]) {
    grads[2] = op_like(ctx, "ConvGradBias", {dy}, {}, *node.operand(2));
  }
  return grads;
}

constexpr OpDef kConvOps[] = {
    {.name = "Conv",
     .precision = kAllow,
     .padding = kContraction,
     .gradient = grad_conv,
     .lower = lower_conv},
    {.name = "ConvTranspose",
     .precision = kAllow,
     .padding = kContraction,
     .gradient = grad_conv_transpose,
     .lower = lower_conv_transpose},
    {.name = "DeformConv",
     .precision = kAllow,
     .fp32_operands = bits(2),  // offsets are coordinates
     .padding = kUnpadded,
     .gradient = grad_deform_conv},
    {.name = "CausalConvWithState",
     .precision = kAllow,
     .padding = kUnpadded,
     .not_differentiable = kFunctionBodyRule,
     .no_kernel = kFunctionBodyKernel},
    {.name = "Col2Im",
     .precision = kInfer,
     .no_gradient_operands = bits(1, 2),
     .padding = kUnpadded,
     .gradient = grad_col2im,
     .lower = lower_col2im},
};

}  // namespace

std::span<const OpDef> conv_ops() { return kConvOps; }

}  // namespace mezzo
