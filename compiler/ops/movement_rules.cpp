#include "compiler/ops/movement_rules.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "compiler/ops/constants.h"
#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

// Slice's operands or attributes with axes and steps spelled out.
struct SliceRange {
  std::vector<std::int64_t> starts, ends, axes, steps;
};

StatusOr<SliceRange> slice_range(const Node& node) {
  MEZZO_ASSIGN_OR_RETURN(const auto starts, ints_of(node, "starts", 1));
  MEZZO_ASSIGN_OR_RETURN(const auto ends, ints_of(node, "ends", 2));
  MEZZO_ASSIGN_OR_RETURN(auto axes, ints_of(node, "axes", 3));
  MEZZO_ASSIGN_OR_RETURN(auto steps, ints_of(node, "steps", 4));
  if (!starts || !ends) return invalid_argument(describe(node) + ": starts or ends are missing");
  if (!axes) {
    axes.emplace(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (!steps) steps.emplace(starts->size(), 1);
  if (ends->size() != starts->size() || axes->size() != starts->size() ||
      steps->size() != starts->size()) {
    return invalid_argument(describe(node) + ": starts, ends, axes and steps differ in length: " +
                            std::to_string(starts->size()) + ", " + std::to_string(ends->size()) +
                            ", " + std::to_string(axes->size()) + ", " +
                            std::to_string(steps->size()));
  }
  return SliceRange{*starts, *ends, *axes, *steps};
}

// Extent of `value` along `axis`, which the gradients of Concat and Split need as a number.
StatusOr<std::int64_t> extent_along(const Node& node, const Value& value, std::int64_t axis) {
  const Dim& dim = (*value.tensor_type().shape)[axis];
  if (dim.known()) return dim.value;
  return unimplemented(describe(node) + ": dimension " + std::to_string(axis) + " of '" +
                       value.name() + "' is unknown (" + to_string(value.type) + ")");
}

StatusOr<std::vector<std::int64_t>> permutation(const Node& node) {
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t rank, known_rank(node, *node.operand(0)));
  std::vector<std::int64_t> perm = node.ints_attribute("perm");
  if (perm.empty()) {
    for (std::int64_t i = rank; i > 0; --i) perm.push_back(i - 1);
  }
  std::vector<bool> seen(rank, false);
  bool valid = static_cast<std::int64_t>(perm.size()) == rank;
  for (const std::int64_t axis : perm) {
    valid = valid && axis >= 0 && axis < rank && !seen[axis];
    if (valid) seen[axis] = true;
  }
  if (valid) return perm;
  return invalid_argument(describe(node) + ": attribute perm is no permutation of " +
                          std::to_string(rank) + " axes");
}

// The sizes of the parts along the axis: as given, or equal ones, the last smaller.
StatusOr<std::vector<std::int64_t>> part_sizes(const Node& node, std::int64_t axis) {
  MEZZO_ASSIGN_OR_RETURN(const auto given, ints_of(node, "split", 1));
  if (given) return *given;
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t whole, extent_along(node, *node.operand(0), axis));
  const auto parts = static_cast<std::int64_t>(node.results().size());
  const std::int64_t size = (whole + parts - 1) / parts;
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < parts; ++i) {
    sizes.push_back(std::clamp<std::int64_t>(whole - i * size, 0, size));
  }
  return sizes;
}

}  // namespace

StatusOr<std::vector<std::int64_t>> full_pads(const Node& node) {
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t rank, known_rank(node, *node.operand(0)));
  MEZZO_ASSIGN_OR_RETURN(const auto given, ints_of(node, "pads", 1));
  MEZZO_ASSIGN_OR_RETURN(auto axes, ints_of(node, "axes", 3));
  if (!axes) {
    axes.emplace(rank);
    std::iota(axes->begin(), axes->end(), 0);
  }
  const std::size_t count = axes->size();
  if (!given || given->size() != 2 * count) {
    return invalid_argument(describe(node) + ": pads: expected " + std::to_string(2 * count) +
                            " numbers, got " + std::to_string(given ? given->size() : 0));
  }
  std::vector<std::int64_t> pads(2 * rank, 0);
  for (std::size_t i = 0; i < count; ++i) {
    MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, normalize_axis(node, (*axes)[i], rank));
    pads[axis] = (*given)[i];
    pads[rank + axis] = (*given)[count + i];
  }
  return pads;
}

StatusOr<Gradients> grad_transpose(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const std::vector<std::int64_t> perm, permutation(ctx.node));
  std::vector<std::int64_t> inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<std::int64_t>(i);
  return Gradients{ctx.builder.op("Transpose", {ctx.result_grads[0]}, {{"perm", inverse}})};
}

StatusOr<Gradients> grad_concat(GradientContext& ctx) {
  const Node& node = ctx.node;
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t rank, known_rank(node, *node.operand(0)));
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis,
                         normalize_axis(node, node.int_attribute("axis", 0), rank));
  Gradients grads = no_gradients(ctx);
  if (grads.size() == 1) return Gradients{ctx.result_grads[0]};
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    MEZZO_ASSIGN_OR_RETURN(const std::int64_t size, extent_along(node, *node.operand(i), axis));
    if (ctx.wanted[i]) {
      grads[i] =
          ctx.builder.op("Slice", {ctx.result_grads[0], ctx.builder.ints({begin}),
                                   ctx.builder.ints({begin + size}), ctx.builder.ints({axis})});
    }
    begin += size;
  }
  return grads;
}

StatusOr<Gradients> grad_split(GradientContext& ctx) {
  const Node& node = ctx.node;
  const Value& x = *node.operand(0);
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t rank, known_rank(node, x));
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis,
                         normalize_axis(node, node.int_attribute("axis", 0), rank));
  std::optional<std::vector<std::int64_t>> sizes;
  std::vector<Value*> parts;
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    if (Value* part = ctx.result_grads[i]) {
      parts.push_back(part);
      continue;
    }
    if (!sizes) {
      MEZZO_ASSIGN_OR_RETURN(sizes, part_sizes(node, axis));
    }
    if (sizes->size() != node.results().size()) {
      return invalid_argument(describe(node) + ": split has " + std::to_string(sizes->size()) +
                              " sizes for " + std::to_string(node.results().size()) + " results");
    }
    std::vector<Dim> dims = *x.tensor_type().shape;
    dims[static_cast<std::size_t>(axis)] = Dim((*sizes)[i]);
    Value* zeros = ctx.builder.mezzo_op("FillZero", {});
    zeros->type = TensorType(x.dtype(), std::move(dims));
    parts.push_back(zeros);
  }
  Gradients grads = no_gradients(ctx);
  grads[0] = parts.size() == 1 ? parts[0] : ctx.builder.op("Concat", parts, {{"axis", axis}});
  return grads;
}

StatusOr<Gradients> grad_slice(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const SliceRange range, slice_range(ctx.node));
  Gradients grads = no_gradients(ctx);
  grads[0] = op_like(ctx, "SliceGrad", {ctx.result_grads[0]},
                     {{"starts", range.starts},
                      {"ends", range.ends},
                      {"axes", range.axes},
                      {"steps", range.steps}},
                     *ctx.node.operand(0));
  return grads;
}

StatusOr<Gradients> grad_expand(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  grads[0] = sum_to(ctx, ctx.result_grads[0], *ctx.node.operand(0));
  return grads;
}

StatusOr<Gradients> grad_trilu(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  grads[0] = ctx.builder.op("Trilu", {ctx.result_grads[0], ctx.node.operand(1)},
                            {{"upper", ctx.node.int_attribute("upper", 1)}});
  return grads;
}

StatusOr<Gradients> grad_gather(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  grads[0] = op_like(ctx, "GatherGrad", {ctx.result_grads[0], ctx.node.operand(1)},
                     {{"axis", ctx.node.int_attribute("axis", 0)}}, *ctx.node.operand(0));
  return grads;
}

Status lower_concat(const Node& node, LoweredOp& lowered) {
  if (node.operand_count() == 1) return lower_alias(node, lowered);
  return ok_status();
}

// The kernel reads the parts' sizes from its results, and those of parts that are left out from an
// attribute.
Status lower_split(const Node& node, LoweredOp& lowered) {
  if (node.results().size() == 1 && node.result(0) != nullptr) return lower_alias(node, lowered);
  const std::int64_t axis = node.int_attribute("axis", 0);
  std::optional<std::vector<std::int64_t>> sizes;
  for (std::size_t i = 0; i < node.results().size() && !sizes; ++i) {
    if (node.result(i) != nullptr) continue;
    MEZZO_ASSIGN_OR_RETURN(const std::int64_t rank, known_rank(node, *node.operand(0)));
    MEZZO_ASSIGN_OR_RETURN(const std::int64_t dim, normalize_axis(node, axis, rank));
    MEZZO_ASSIGN_OR_RETURN(sizes, part_sizes(node, dim));
  }
  keep_operands(lowered, 1);
  lowered.attributes.clear();
  set_attribute(lowered, "axis", axis);
  if (sizes) set_attribute(lowered, "split", *sizes);
  return ok_status();
}

Status lower_slice(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const SliceRange range, slice_range(node));
  keep_operands(lowered, 1);
  lowered.attributes.clear();
  set_attribute(lowered, "starts", range.starts);
  set_attribute(lowered, "ends", range.ends);
  set_attribute(lowered, "axes", range.axes);
  set_attribute(lowered, "steps", range.steps);
  return ok_status();
}

// The kernel reads the shape from its result.
Status lower_expand(const Node& node, LoweredOp& lowered) {
  if (node.result() != nullptr && same_shape(*node.operand(0), *node.result())) {
    return lower_alias(node, lowered);
  }
  keep_operands(lowered, 1);
  return ok_status();
}

// A known value that a float holds goes along as a number; any other is an operand.
Status lower_pad(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const std::vector<std::int64_t> pads, full_pads(node));
  const std::string mode = node.string_attribute("mode", "constant");
  double value = node.float_attribute("value", 0.0F);
  Value* operand = mode == "constant" ? node.operand(2) : nullptr;
  if (operand != nullptr && is_floating(operand->dtype()) && operand->dtype() != DType::kFloat64) {
    if (const auto constant = constant_scalar(operand)) {
      value = *constant;
      operand = nullptr;
    }
  }
  keep_operands(lowered, 1);
  if (operand != nullptr) lowered.operands.push_back(operand);
  lowered.attributes.clear();
  set_attribute(lowered, "pads", pads);
  set_attribute(lowered, "mode", mode);
  set_attribute(lowered, "value", static_cast<float>(value));
  return ok_status();
}

Status lower_trilu(const Node& node, LoweredOp& lowered) {
  std::int64_t k = 0;
  if (node.operand(1) != nullptr) {
    const auto values = constant_ints(node.operand(1));
    if (!values || values->size() != 1) {
      return unimplemented(describe(node) + ": the diagonal k depends on the run");
    }
    k = values->front();
  }
  keep_operands(lowered, 1);
  set_attribute(lowered, "k", k);
  return ok_status();
}

}  // namespace mezzo
