#include "compiler/ops/layer_gradients.h"

#include <string>

#include "compiler/ops/gradient_helpers.h"
#include "compiler/ops/window.h"

namespace mezzo {
namespace {

using Attributes = std::vector<Builder::NamedValue>;

// The forward node's attributes as its kernel takes them: sizes, axes and the like that came as
// constant operands are among them. `lowered` owns the names.
StatusOr<LoweredOp> lowered_form(const GradientContext& ctx) { return lower(ctx.node); }
Attributes attributes_of(const LoweredOp& lowered) {
  Attributes attributes;
  for (const Attribute& attribute : lowered.attributes) {
    attributes.emplace_back(attribute.name, attribute.value);
  }
  return attributes;
}

// A node of ours whose result `i` is the gradient of operand `operands_of[i]`, left out where it is
// not wanted. Returns the gradients by operand of the forward node.
Gradients grads_of(GradientContext& ctx, std::string_view op_type, std::vector<Value*> operands,
                   Attributes attributes, const std::vector<std::size_t>& operands_of) {
  Gradients grads = no_gradients(ctx);
  Builder& builder = ctx.builder;
  Node* node = builder.node(op_type, std::move(operands), 0, std::move(attributes), kMezzoDomain);
  Graph& graph = builder.graph();
  for (std::size_t i = 0; i < operands_of.size(); ++i) {
    const std::size_t operand = operands_of[i];
    const bool wanted = operand < ctx.wanted.size() && ctx.wanted[operand];
    Value* result = graph.add_result(node, wanted ? graph.unique_name(node->name) : "");
    if (!wanted) continue;
    const Value& like = *ctx.node.operand(operand);
    result->type = like.type;
    grads[operand] = result;
  }
  return grads;
}

}  // namespace

StatusOr<Gradients> grad_resize(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const LoweredOp lowered, lowered_form(ctx));
  Gradients grads = no_gradients(ctx);
  grads[0] = op_like(ctx, "ResizeGrad", {ctx.result_grads[0]}, attributes_of(lowered),
                     *ctx.node.operand(0));
  return grads;
}

StatusOr<Gradients> grad_grid_sample(GradientContext& ctx) {
  // The nearest element stays the same when the point moves a little.
  if (ctx.node.string_attribute("mode", "linear") == "nearest") ctx.wanted[1] = false;
  if (!ctx.wanted[0] && !ctx.wanted[1]) return no_gradients(ctx);
  return grads_of(ctx, "GridSampleGrad",
                  {ctx.result_grads[0], ctx.node.operand(0), ctx.node.operand(1)},
                  forward_attributes(ctx), {0, 1});
}

StatusOr<Gradients> grad_affine_grid(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  grads[0] = op_like(ctx, "AffineGridGrad", {ctx.result_grads[0]}, forward_attributes(ctx),
                     *ctx.node.operand(0));
  return grads;
}

StatusOr<Gradients> grad_roi(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  std::vector<Value*> operands = {ctx.result_grads[0]};
  for (Value* operand : ctx.node.operands()) operands.push_back(operand);
  grads[0] = op_like(ctx, ctx.node.op_type() + "Grad", std::move(operands), forward_attributes(ctx),
                     *ctx.node.operand(0));
  return grads;
}

StatusOr<Gradients> grad_deform_conv(GradientContext& ctx) {
  const Node& node = ctx.node;
  Value* dy = ctx.result_grads[0];
  MEZZO_ASSIGN_OR_RETURN(const LoweredOp lowered, lowered_form(ctx));
  const bool others =
      ctx.wanted[0] || ctx.wanted[1] || ctx.wanted[2] || (ctx.wanted.size() > 4 && ctx.wanted[4]);
  Gradients grads = no_gradients(ctx);
  if (others) {
    grads = grads_of(ctx, "DeformConvGrad",
                     {dy, node.operand(0), node.operand(1), node.operand(2), node.operand(4)},
                     attributes_of(lowered), {0, 1, 2, 4});
  }
  if (ctx.wanted.size() > 3 && ctx.wanted[3]) {
    grads[3] = op_like(ctx, "ConvGradBias", {dy}, {}, *node.operand(3));
  }
  return grads;
}

StatusOr<Gradients> grad_col2im(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const LoweredOp lowered, lowered_form(ctx));
  Gradients grads = no_gradients(ctx);
  grads[0] = op_like(ctx, "Col2ImGrad", {ctx.result_grads[0]}, attributes_of(lowered),
                     *ctx.node.operand(0));
  return grads;
}

// dx = dy at the indices. Where two elements go to one place the later one stays, and both get its
// gradient: as in PyTorch, and no pool makes such indices unless its windows overlap.
StatusOr<Gradients> grad_max_unpool(GradientContext& ctx) {
  const Node& node = ctx.node;
  Builder& builder = ctx.builder;
  Value* dy = ctx.result_grads[0];
  if (node.operand(2) != nullptr) {
    // Indices count in what the windows cover, the first corner of a larger result.
    const Value& x = *node.operand(0);
    if (!x.type.is_tensor() || !x.tensor_type().has_static_shape()) {
      return unimplemented(describe(node) + ": its gradient needs the shape of '" + x.name() + "'");
    }
    const std::vector<std::int64_t> dims = x.tensor_type().dims();
    const std::size_t spatial = dims.size() - 2;
    const auto list = [&](std::string_view name, std::int64_t fallback, std::size_t count) {
      const Attribute* given = node.attribute(name);
      const auto* ints = given ? std::get_if<std::vector<std::int64_t>>(&given->value) : nullptr;
      return ints && ints->size() == count ? *ints : std::vector<std::int64_t>(count, fallback);
    };
    const auto kernel = list("kernel_shape", 1, spatial), strides = list("strides", 1, spatial),
               pads = list("pads", 0, 2 * spatial);
    std::vector<std::int64_t> starts(spatial, 0), ends, axes;
    for (std::size_t d = 0; d < spatial; ++d) {
      ends.push_back((dims[d + 2] - 1) * strides[d] - pads[d] - pads[spatial + d] + kernel[d]);
      axes.push_back(static_cast<std::int64_t>(d + 2));
    }
    dy = builder.op("Slice", {dy, builder.ints(starts), builder.ints(ends), builder.ints(axes)});
  }
  Value* flat = builder.op("Reshape", {dy, builder.ints({-1})});
  Gradients grads = no_gradients(ctx);
  grads[0] = builder.op("Gather", {flat, node.operand(1)});
  return grads;
}

// GlobalLpPool is LpPool with a window as large as the image.
StatusOr<Gradients> grad_lp_pool(GradientContext& ctx) {
  const Node& node = ctx.node;
  Value* x = node.operand(0);
  Attributes attributes;
  if (node.is("LpPool")) {
    MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(node, *x, nullptr));
    attributes = window_attributes(window);
    attributes.emplace_back("ceil_mode", node.int_attribute("ceil_mode", 0));
  } else {
    std::vector<std::int64_t> kernel;
    const bool ranked = x->type.is_tensor() && x->tensor_type().shape.has_value();
    for (std::size_t d = 2; ranked && d < x->tensor_type().shape->size(); ++d) {
      const Dim& dim = (*x->tensor_type().shape)[d];
      kernel.push_back(dim.known() ? dim.value : 0);
      if (!dim.known()) kernel.clear();
      if (!dim.known()) break;
    }
    if (kernel.empty()) {
      return unimplemented(describe(node) + ": its gradient needs the image size of '" + x->name() +
                           "'");
    }
    attributes.emplace_back("kernel_shape", std::move(kernel));
  }
  if (const Attribute* p = node.attribute("p")) attributes.emplace_back("p", p->value);
  return Gradients{op_like(ctx, "LpPoolGrad", {ctx.result_grads[0], x, node.result()},
                           std::move(attributes), *x)};
}

StatusOr<Gradients> grad_dft(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const LoweredOp lowered, lowered_form(ctx));
  Gradients grads = no_gradients(ctx);
  grads[0] =
      op_like(ctx, "DFTGrad", {ctx.result_grads[0]}, attributes_of(lowered), *ctx.node.operand(0));
  return grads;
}

StatusOr<Gradients> grad_stft(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const LoweredOp lowered, lowered_form(ctx));
  return grads_of(ctx, "STFTGrad", {ctx.result_grads[0], ctx.node.operand(0), ctx.node.operand(2)},
                  attributes_of(lowered), {0, 2});
}

// Gradients of both results.
StatusOr<Gradients> grad_linear_attention(GradientContext& ctx) {
  std::vector<Value*> operands(2, nullptr);
  for (std::size_t i = 0; i < 2 && i < ctx.result_grads.size(); ++i) {
    operands[i] = ctx.result_grads[i];
  }
  for (std::size_t i = 0; i < 6; ++i) operands.push_back(ctx.node.operand(i));
  return grads_of(ctx, "LinearAttentionGrad", std::move(operands), forward_attributes(ctx),
                  {0, 1, 2, 3, 4, 5});
}

// Gradients of all results and operands at once; see kernels/recurrent_grad.h.
StatusOr<Gradients> grad_recurrent(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const LoweredOp lowered, lowered_form(ctx));
  std::vector<Value*> operands(3, nullptr);
  for (std::size_t i = 0; i < 3 && i < ctx.result_grads.size(); ++i) {
    operands[i] = ctx.result_grads[i];
  }
  for (std::size_t i = 0; i < 8; ++i) operands.push_back(ctx.node.operand(i));
  return grads_of(ctx, ctx.node.op_type() + "Grad", std::move(operands), attributes_of(lowered),
                  {0, 1, 2, 3, 5, 6, 7});
}

}  // namespace mezzo
