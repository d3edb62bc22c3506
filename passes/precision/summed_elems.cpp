#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/constants.h"
#include "passes/precision/reach_rules.h"

namespace mezzo::passes {
namespace {

const std::vector<Dim>* shape_of(const Value* value) {
  if (value == nullptr || !value->type.is_tensor() || !value->tensor_type().shape) return nullptr;
  return &*value->tensor_type().shape;
}

std::optional<double> extent(const Value* value, std::int64_t axis) {
  const std::vector<Dim>* shape = shape_of(value);
  if (shape == nullptr) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(shape->size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || !(*shape)[static_cast<std::size_t>(axis)].known())
    return std::nullopt;
  return static_cast<double>((*shape)[static_cast<std::size_t>(axis)].value);
}

// The product of the extents from dimension `first` on.
std::optional<double> extents_from(const Value* value, std::int64_t first) {
  const std::vector<Dim>* shape = shape_of(value);
  if (shape == nullptr) return std::nullopt;
  double product = 1;
  for (std::size_t i = static_cast<std::size_t>(first); i < shape->size(); ++i) {
    if (!(*shape)[i].known()) return std::nullopt;
    product *= static_cast<double>((*shape)[i].value);
  }
  return product;
}

std::optional<double> reduced(const Node& node) {
  std::vector<std::int64_t> axes = node.ints_attribute("axes");
  if (node.operand(1) != nullptr) {
    auto constant = constant_ints(node.operand(1));
    if (!constant) return std::nullopt;
    axes = std::move(*constant);
  }
  if (axes.empty()) {
    return node.int_attribute("noop_with_empty_axes", 0) != 0 ? std::optional(1.0)
                                                              : extents_from(node.operand(0), 0);
  }
  double product = 1;
  for (const std::int64_t axis : axes) {
    const auto dim = extent(node.operand(0), axis);
    if (!dim) return std::nullopt;
    product *= *dim;
  }
  return product;
}

std::optional<double> cumulated(const Node& node) {
  const auto axis = constant_ints(node.operand(1));
  return axis && axis->size() == 1 ? extent(node.operand(0), axis->front()) : std::nullopt;
}

double window(const Node& node) {
  double product = 1;
  for (const std::int64_t side : node.ints_attribute("kernel_shape"))
    product *= static_cast<double>(side);
  return product;
}

// Labels that no result has are summed over.
std::optional<double> einsum(const Node& node) {
  const std::string equation = node.string_attribute("equation", "");
  const std::size_t arrow = equation.find("->");
  if (arrow == std::string::npos) return std::nullopt;
  const std::string result = equation.substr(arrow + 2);
  const bool sums = std::any_of(
      equation.begin(), equation.begin() + static_cast<std::ptrdiff_t>(arrow), [&](char label) {
        return label != ',' && label != ' ' && label != '.' &&
               result.find(label) == std::string::npos;
      });
  return sums ? std::nullopt : std::optional(1.0);
}

}  // namespace

std::optional<double> summed_elems(const Node& node) {
  const std::string& op = node.op_type();
  if (op == "MatMul") return extent(node.operand(0), -1);
  if (op == "Gemm") return extent(node.operand(0), node.int_attribute("transA", 0) != 0 ? 0 : 1);
  if (op == "Conv") return extents_from(node.operand(1), 1);
  if (op == "Einsum") return einsum(node);
  if (op == "CumSum") return cumulated(node);
  if (op == "AveragePool" || op == "LpPool") return window(node);
  if (op == "GlobalAveragePool" || op == "GlobalLpPool") return extents_from(node.operand(0), 2);
  if (op.rfind("Reduce", 0) == 0) return reduced(node);
  return std::nullopt;
}

}  // namespace mezzo::passes
