// Pooling. Maxima choose, averages stay within the range of their operands and are accumulated in
// FP32 by our kernels and the GPU libraries: both follow their neighbours.
#include "compiler/ops/families.h"
#include "compiler/ops/gradient_helpers.h"
#include "compiler/ops/image_rules.h"
#include "compiler/ops/layer_gradients.h"
#include "compiler/ops/reduce_rules.h"
#include "compiler/ops/window.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

StatusOr<Gradients> grad_max_pool(GradientContext& ctx) {
  MEZZO_RETURN_IF_ERROR(only_first_result(ctx));
  // The windows, so that kernels can go from an element to those that hold it.
  MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(ctx.node, *ctx.node.operand(0), nullptr));
  auto windows = window_attributes(window);
  windows.emplace_back("ceil_mode", ctx.node.int_attribute("ceil_mode", 0));
  Value* indices = nullptr;
  if (ctx.node.int_attribute("storage_order", 0) != 0 && ctx.node.result(1) != nullptr) {
    // Somebody reads column-major indices, MaxPoolGrad row-major ones: pooled once more.
    auto attributes = forward_attributes(ctx);
    std::erase_if(attributes, [](const auto& entry) { return entry.first == "storage_order"; });
    const Node* again =
        ctx.builder.node("MaxPool", {ctx.node.operand(0)}, 2, std::move(attributes));
    indices = again->result(1);
  } else {
    ctx.node.erase_attribute("storage_order");
    MEZZO_ASSIGN_OR_RETURN(indices, require_result(ctx, 1, "indices"));
  }
  return Gradients{op_like(ctx, "MaxPoolGrad", {ctx.result_grads[0], indices}, std::move(windows),
                           *ctx.node.operand(0))};
}

StatusOr<Gradients> grad_average_pool(GradientContext& ctx) {
  const Node& node = ctx.node;
  MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(node, *node.operand(0), nullptr));
  auto attributes = window_attributes(window);
  attributes.emplace_back("count_include_pad", node.int_attribute("count_include_pad", 0));
  attributes.emplace_back("ceil_mode", node.int_attribute("ceil_mode", 0));
  return Gradients{
      op_like(ctx, "AveragePoolGrad", {ctx.result_grads[0]}, attributes, *node.operand(0))};
}

StatusOr<Gradients> grad_global_average_pool(GradientContext& ctx) {
  return Gradients{
      op_like(ctx, "GlobalAveragePoolGrad", {ctx.result_grads[0]}, {}, *ctx.node.operand(0))};
}

constexpr OpDef kPoolOps[] = {
    {.name = "MaxPool",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_max_pool,
     .lower = lower_pool},
    {.name = "AveragePool",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_average_pool,
     .lower = lower_pool},
    {.name = "GlobalAveragePool",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_global_average_pool},
    {.name = "GlobalMaxPool",
     .precision = kInfer,
     .padding = kKeepsZero,
     .gradient = grad_reduce_extreme,
     .lower = lower_global_max_pool},
    {.name = "LpPool",
     .precision = kDeny,  // sums powers
     .padding = kKeepsZero,
     .gradient = grad_lp_pool,
     .lower = lower_pool},
    {.name = "GlobalLpPool", .precision = kDeny, .padding = kKeepsZero, .gradient = grad_lp_pool},
    {.name = "MaxUnpool",
     .precision = kClear,
     .no_gradient_operands = bits(1, 2),
     .padding = kUnpadded,  // indices count logical elements,
     .gradient = grad_max_unpool,
     .lower = lower_max_unpool},
};

}  // namespace

std::span<const OpDef> pool_ops() { return kPoolOps; }

}  // namespace mezzo
