#include "passes/cleanup/match.h"

namespace mezzo::passes {

Value* operand_beside(const Node& node, double constant, double tolerance) {
  if (is_scalar(node.operand(1), constant, tolerance)) return node.operand(0);
  return is_scalar(node.operand(0), constant, tolerance) ? node.operand(1) : nullptr;
}

std::optional<std::int64_t> single_axis_from_end(const Node& reduction) {
  if (reduction.operand(0) == nullptr || reduction.int_attribute("keepdims", 1) == 0)
    return std::nullopt;
  std::vector<std::int64_t> axes = reduction.ints_attribute("axes");
  if (const Value* operand = reduction.operand(1)) {
    auto constant = constant_ints(operand);
    if (!constant) return std::nullopt;
    axes = std::move(*constant);
  }
  const auto rank = reduction.operand(0)->type.is_tensor()
                        ? reduction.operand(0)->tensor_type().rank()
                        : std::nullopt;
  if (axes.size() != 1) return std::nullopt;
  if (axes[0] < 0) return axes[0];
  return rank ? std::optional(axes[0] - static_cast<std::int64_t>(*rank)) : std::nullopt;
}

}  // namespace mezzo::passes
