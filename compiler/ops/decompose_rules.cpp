#include "compiler/ops/decompose_rules.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "compiler/ops/constants.h"

namespace mezzo {

// From left to right, two at a time.
StatusOr<Results> decompose_many(Builder& builder, const Node& node) {
  if (node.operand_count() == 0) return Results{};
  Value* result = node.operand(0);
  for (std::size_t i = 1; i < node.operand_count(); ++i) {
    result = builder.op(node.op_type(), {result, node.operand(i)});
  }
  if (result == node.operand(0)) result = builder.op("Identity", {result});
  return Results{result};
}

// [d0, d1] repeated r0, r1 times: [1, d0, 1, d1] expanded to [r0, d0, r1, d1], then flattened.
StatusOr<Results> decompose_tile(Builder& builder, const Node& node) {
  const auto dims = static_dims(node.operand(0));
  const auto repeats = constant_ints(node.operand(1));
  if (!dims || !repeats || repeats->size() != dims->size()) return Results{};
  std::vector<std::int64_t> spread, wide, flat;
  for (std::size_t i = 0; i < dims->size(); ++i) {
    const std::int64_t dim = (*dims)[i], repeat = (*repeats)[i];
    if (repeat < 0 || (dim > 0 && repeat > (std::int64_t{1} << 40) / dim)) {
      return invalid_argument(describe(node) + ": repeats: " + std::to_string(repeat) +
                              " is out of range");
    }
    spread.insert(spread.end(), {1, dim});
    wide.insert(wide.end(), {repeat, dim});
    flat.push_back(repeat * dim);
  }
  if (std::count(flat.begin(), flat.end(), 0) > 0) {  // Reshape would copy a dim for each zero
    const DType dtype = node.operand(0)->dtype();
    std::vector<std::byte> zero(dtype_bytes(dtype, 1));
    const NamedTensor fill{"", Tensor::from_bytes(dtype, {1}, std::move(zero))};
    return Results{builder.op("ConstantOfShape", {builder.ints(flat)}, {{"value", fill}})};
  }
  Value* value = builder.op("Reshape", {node.operand(0), builder.ints(spread)});
  value = builder.op("Expand", {value, builder.ints(wide)});
  return Results{builder.op("Reshape", {value, builder.ints(flat)})};
}

// By a condition that is known: a Gather of the chosen places. A condition that depends on the run
// leaves the size of the result open.
StatusOr<Results> decompose_compress(Builder& builder, const Node& node) {
  const auto chosen = constant_ints(node.operand(1));
  Value* x = node.operand(0);
  if (!chosen || x == nullptr) return Results{};
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < chosen->size(); ++i) {
    if ((*chosen)[i] != 0) places.push_back(static_cast<std::int64_t>(i));
  }
  std::int64_t axis = 0;
  if (node.has_attribute("axis")) {
    axis = node.int_attribute("axis", 0);
  } else {
    x = builder.op("Reshape", {x, builder.ints({-1})});
  }
  return Results{builder.op("Gather", {x, builder.ints(places)}, {{"axis", axis}})};
}

// Blocks of b x b pixels become channels, or the other way round; ONNX, operator DepthToSpace.
StatusOr<Results> decompose_depth_to_space(Builder& builder, const Node& node) {
  const auto dims = static_dims(node.operand(0));
  const std::int64_t b = node.int_attribute("blocksize", 0);
  if (!dims || dims->size() != 4 || b < 1 || b > 4096) return Results{};
  const std::int64_t n = (*dims)[0], c = (*dims)[1], h = (*dims)[2], w = (*dims)[3];
  const bool channels_first = node.string_attribute("mode", "DCR") == "DCR";
  std::vector<std::int64_t> split, perm, merged;
  if (node.is("DepthToSpace")) {
    if (c % (b * b) != 0) return Results{};
    const std::int64_t depth = c / (b * b);
    split = channels_first ? std::vector{n, b, b, depth, h, w} : std::vector{n, depth, b, b, h, w};
    perm = channels_first ? std::vector<std::int64_t>{0, 3, 4, 1, 5, 2}
                          : std::vector<std::int64_t>{0, 1, 4, 2, 5, 3};
    merged = {n, depth, h * b, w * b};
  } else {
    if (!channels_first || h % b != 0 || w % b != 0) return Results{};
    split = {n, c, h / b, b, w / b, b};
    perm = {0, 3, 5, 1, 2, 4};
    merged = {n, c * b * b, h / b, w / b};
  }
  Value* value = builder.op("Reshape", {node.operand(0), builder.ints(split)});
  value = builder.op("Transpose", {value}, {{"perm", perm}});
  return Results{builder.op("Reshape", {value, builder.ints(merged)})};
}

// The value, broadcast.
StatusOr<Results> decompose_constant_of_shape(Builder& builder, const Node& node) {
  const Attribute* attribute = node.attribute("value");
  const auto* value = attribute ? std::get_if<NamedTensor>(&attribute->value) : nullptr;
  if (value == nullptr || !value->tensor || value->tensor->elems() != 1) return Results{};
  Value* fill = builder.constant(value->tensor);
  return Results{builder.op("Expand", {fill, node.operand(0)})};
}

namespace {

// x[N, G, E..] with every [E..] brought to mean 0 and variance 1, as LayerNormalization does it.
Value* normalise_each(Builder& builder, const Node& node, Value* x,
                      const std::vector<std::int64_t>& elems) {
  Value* one = builder.scalar(x->dtype(), 1.0);
  Value* ones = builder.op("Expand", {one, builder.ints(elems)});
  return builder.op(
      "LayerNormalization", {x, ones},
      {{"axis", std::int64_t{2}}, {"epsilon", node.float_attribute("epsilon", 1e-5F)}},
      kMezzoDomain);
}

// value scale + bias, with vectors along dimension 1 of `rank`.
Value* scale_and_shift(Builder& builder, const Node& node, Value* value, std::size_t rank) {
  std::vector<std::int64_t> along(rank - 1, 1);
  along[0] = -1;
  Value* scale = builder.op("Reshape", {node.operand(1), builder.ints(along)});
  Value* bias = builder.op("Reshape", {node.operand(2), builder.ints(along)});
  return builder.op("Add", {builder.op("Mul", {value, scale}), bias});
}

}  // namespace

// Normalises the spatial dimensions of x[N, C, ..], then scales per channel.
StatusOr<Results> decompose_instance_norm(Builder& builder, const Node& node) {
  Value* x = node.operand(0);
  const auto dims = static_dims(x);
  if (!dims || dims->size() < 3 || node.operand(2) == nullptr || !is_floating(x->dtype()))
    return Results{};
  Value* normal = normalise_each(builder, node, x, {dims->begin() + 2, dims->end()});
  return Results{scale_and_shift(builder, node, normal, dims->size())};
}

// Normalises every group of channels of x[N, C, ..], then scales per channel (opset 21) or per
// group (opset 18). ONNX's function body subtracts the squared mean from the mean square, which
// leaves no digits where the mean is large.
StatusOr<Results> decompose_group_norm_onnx(Builder& builder, const Node& node) {
  Value* x = node.operand(0);
  const auto dims = static_dims(x);
  const std::int64_t groups = node.int_attribute("num_groups", 0);
  const auto factors = static_dims(node.operand(1));
  if (!dims || dims->size() < 2 || !factors || factors->size() != 1 || groups < 1 ||
      node.operand(2) == nullptr || !is_floating(x->dtype()) || (*dims)[1] % groups != 0 ||
      std::count(dims->begin(), dims->end(), 0) > 0) {
    return Results{};
  }
  std::int64_t elems = (*dims)[1] / groups;
  for (std::size_t i = 2; i < dims->size(); ++i) elems *= (*dims)[i];
  Value* grouped = builder.op("Reshape", {x, builder.ints({(*dims)[0], groups, elems})});
  Value* normal = normalise_each(builder, node, grouped, {elems});
  if (factors->front() == groups && groups != (*dims)[1]) {
    Value* y = scale_and_shift(builder, node, normal, 3);
    return Results{builder.op("Reshape", {y, builder.ints(*dims)})};
  }
  normal = builder.op("Reshape", {normal, builder.ints(*dims)});
  return Results{scale_and_shift(builder, node, normal, dims->size())};
}

// After LogSoftmax over the classes it is the cross entropy of LogSoftmax's operand.
StatusOr<Results> decompose_nll_loss(Builder& builder, const Node& node) {
  const Value* scores = node.operand(0);
  const Node* softmax = scores ? scores->producer() : nullptr;
  if (softmax == nullptr || !softmax->is("LogSoftmax")) return Results{};
  const auto rank = static_cast<std::int64_t>(
      scores->type.is_tensor() ? scores->tensor_type().rank().value_or(0) : 0);
  const std::int64_t axis = softmax->int_attribute("axis", -1);
  if (rank < 2 || (axis < 0 ? axis + rank : axis) != 1) return Results{};
  std::vector<Builder::NamedValue> attributes = {
      {"reduction", node.string_attribute("reduction", "mean")}};
  if (node.has_attribute("ignore_index")) {
    attributes.emplace_back("ignore_index", node.int_attribute("ignore_index", 0));
  }
  return Results{builder.op("SoftmaxCrossEntropyLoss",
                            {softmax->operand(0), node.operand(1), node.operand(2)},
                            std::move(attributes))};
}

}  // namespace mezzo
