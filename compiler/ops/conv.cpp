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

// y is what Conv's input gradient would be, so Conv and its weight gradient, with the roles of
// input and output exchanged, are the gradients.
StatusOr<Gradients> grad_conv_transpose(GradientContext& ctx) {
  const Node& node = ctx.node;
  Value* x = node.operand(0);
  Value* w = node.operand(1);
  Value* dy = ctx.result_grads[0];
  MEZZO_ASSIGN_OR_RETURN(const Window window, transposed_window_of(node, *x, *w, *node.result()));
  const auto attributes = conv_attributes(node, window);
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) grads[0] = ctx.builder.op("Conv", {dy, w}, attributes);
  if (ctx.wanted[1]) grads[1] = op_like(ctx, "ConvGradWeight", {x, dy}, attributes, *w);
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
