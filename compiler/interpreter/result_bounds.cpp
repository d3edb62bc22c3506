#include <algorithm>

#include "compiler/interpreter/prepared_node.h"
#include "compiler/ops/constants.h"

namespace mezzo::interpreter {
namespace {

using Dims = std::vector<std::int64_t>;

void set_dims(Value* result, DType dtype, const Dims& dims) {
  if (result != nullptr) result->type = TensorType::of(dtype, dims);
}

std::int64_t elems(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

// The dims with those along `axis` cut to `most`; all elements in a row without an axis.
Dims cut(const Dims& dims, const Node& node, std::int64_t most) {
  if (!node.has_attribute("axis")) return {std::min(most, elems(dims))};
  const auto rank = static_cast<std::int64_t>(dims.size());
  std::int64_t axis = node.int_attribute("axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return dims;  // the kernel complains
  Dims result = dims;
  auto& size = result[static_cast<std::size_t>(axis)];
  size = std::min(most, size);
  return result;
}

void bound_unique(Node& node, const Dims& dims) {
  const Dims whole = node.has_attribute("axis") ? dims : Dims{elems(dims)};
  std::int64_t rows = elems(dims);
  if (node.has_attribute("axis") && !dims.empty()) {
    const auto rank = static_cast<std::int64_t>(dims.size());
    const std::int64_t axis = node.int_attribute("axis", 0);
    const std::int64_t at = axis < 0 ? axis + rank : axis;
    if (at >= 0 && at < rank) rows = dims[static_cast<std::size_t>(at)];
  }
  set_dims(node.result(0), node.operand(0)->dtype(), whole);
  for (std::size_t i = 1; i < 4; ++i) set_dims(node.result(i), DType::kInt64, {rows});
}

void bound_non_max_suppression(Node& node) {
  const auto boxes = static_dims(node.operand(0)), scores = static_dims(node.operand(1));
  if (!boxes || !scores || boxes->size() != 3 || scores->size() != 3) return;
  std::int64_t most = 0;
  if (node.operand(2) != nullptr) {
    const auto given = constant_ints(node.operand(2));
    if (!given || given->size() != 1) return;  // asked again when its value is known
    most = std::clamp<std::int64_t>((*given)[0], 0, (*boxes)[1]);
  }
  set_dims(node.result(0), DType::kInt64, {(*scores)[0] * (*scores)[1] * most, 3});
}

}  // namespace

void bound_results(Node& node) {
  if (!node.domain().empty()) return;
  const auto dims = static_dims(node.operand(0));
  if (!dims) return;
  if (node.is("NonZero")) {
    set_dims(node.result(0), DType::kInt64,
             {static_cast<std::int64_t>(dims->size()), elems(*dims)});
  } else if (node.is("Compress")) {
    const auto condition = static_dims(node.operand(1));
    if (condition)
      set_dims(node.result(0), node.operand(0)->dtype(), cut(*dims, node, elems(*condition)));
  } else if (node.is("Unique")) {
    bound_unique(node, *dims);
  } else if (node.is("NonMaxSuppression")) {
    bound_non_max_suppression(node);
  }
}

}  // namespace mezzo::interpreter
