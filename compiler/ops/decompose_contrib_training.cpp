// Gradients, losses and sums of ONNX Runtime's training artifacts, as nodes that have kernels.
// Operands and formulas are those of its training schemas.
#include "compiler/ops/decompose_contrib_training.h"

#include <algorithm>
#include <optional>
#include <string>

#include "compiler/ops/constants.h"

namespace mezzo {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::vector<Builder::NamedValue>;

// The dimensions that a normalisation runs over, from `axis` on; nothing where dims are unknown.
std::optional<Ints> normalised_axes(const Node& node, const Value* x) {
  const auto dims = static_dims(x);
  if (!dims) return {};
  const auto rank = static_cast<std::int64_t>(dims->size());
  std::int64_t axis = node.int_attribute("axis", -1);
  axis = axis < 0 ? axis + rank : axis;
  if (axis < 0 || axis >= rank) return {};
  Ints axes;
  for (std::int64_t i = axis; i < rank; ++i) axes.push_back(i);
  return axes;
}

// REQUIRES: static dims.
Value* mean_of(const Sketch& s, Value* x, const Ints& axes) {
  double elems = 1;
  for (const std::int64_t i : axes)
    elems *= static_cast<double>(x->tensor_type().dims()[static_cast<std::size_t>(i)]);
  Value* sum = s.op("ReduceSum", {x, s.builder().ints(axes)}, {{"keepdims", std::int64_t{1}}});
  return s.op("Div", {sum, s.number(x->dtype(), elems)});
}

// dx = kOp(dy, y) or kOp(dy, x).
template <const char* kOp>
StatusOr<Results> decompose_unary(Builder& builder, const Node& node) {
  return Results{builder.mezzo_op(kOp, {node.operand(0), node.operand(1)})};
}
constexpr char kRelu[] = "ReluGrad";
constexpr char kSigmoid[] = "SigmoidGrad";
constexpr char kTanh[] = "TanhGrad";

// Told from y, whose sign is that of x as long as alpha is positive.
StatusOr<Results> decompose_leaky_relu_grad(Builder& builder, const Node& node) {
  return Results{builder.mezzo_op("LeakyReluGrad", {node.operand(0), node.operand(1)},
                                  {{"alpha", node.float_attribute("alpha", 0.01F)}})};
}

StatusOr<Results> decompose_gelu_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const bool fast = node.op_type().find("Fast") != std::string::npos;
  Value* x = s.add(s.operand(1), s.operand(2));
  return Results{builder.mezzo_op("GeluGrad", {s.operand(0), x},
                                  {{"approximate", std::string(fast ? "tanh" : "none")}})};
}

StatusOr<Results> decompose_quick_gelu_grad(Builder& builder, const Node& node) {
  return Results{builder.mezzo_op("SwishGrad", {node.operand(0), node.operand(1)},
                                  {{"alpha", node.float_attribute("alpha", 1.702F)}})};
}

// The operators without _13 belong to Softmax before opset 13, which runs over all dimensions from
// `axis` on.
StatusOr<Results> decompose_softmax_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const std::string op = node.op_type().rfind("Log", 0) == 0 ? "LogSoftmaxGrad" : "SoftmaxGrad";
  const auto grad = [&](Value* dy, Value* y, std::int64_t axis) {
    return builder.mezzo_op(op, {dy, y}, {{"axis", axis}});
  };
  Value *dy = s.operand(0), *y = s.operand(1);
  const bool coerces = !node.op_type().ends_with("_13");
  const std::int64_t axis = node.int_attribute("axis", coerces ? 1 : -1);
  if (!coerces) return Results{grad(dy, y, axis)};
  const auto dims = static_dims(y);
  if (!dims) return Results{};
  const auto rank = static_cast<std::int64_t>(dims->size());
  const std::int64_t first = axis < 0 ? axis + rank : axis;
  if (first < 0 || first > rank) return Results{};
  if (first == rank - 1) return Results{grad(dy, y, -1)};
  std::int64_t rows = 1;
  for (std::int64_t i = 0; i < first; ++i) rows *= (*dims)[static_cast<std::size_t>(i)];
  const Ints matrix = {rows, rows == 0 ? 0 : y->tensor_type().elems() / rows};
  return Results{s.reshape(grad(s.reshape(dy, matrix), s.reshape(y, matrix), -1), *dims)};
}

// dy, x, scale, mean, 1 / deviation -> dx, dscale, dbias.
StatusOr<Results> decompose_layer_norm_grad(Builder& builder, const Node& node) {
  const std::size_t results = node.result(2) != nullptr ? 3 : 2;
  const Node* grad = builder.node("LayerNormalizationGrad", node.operands(), results,
                                  {{"axis", node.int_attribute("axis", -1)}}, kMezzoDomain);
  return grad->results();
}

StatusOr<Results> decompose_batch_norm_grad(Builder& builder, const Node& node) {
  return builder.node("BatchNormalizationGrad", node.operands(), 3, {}, kMezzoDomain)->results();
}

// y = n scale with n = x r and r = 1 / root mean square: dx = r (g - n mean(g n)) with g = dy
// scale; dscale sums dy n.
StatusOr<Results> decompose_simplified_norm_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  Value *dy = s.operand(0), *x = s.operand(1), *scale = s.operand(2), *root = s.operand(3);
  const auto axes = normalised_axes(node, x);
  if (!axes || scale == nullptr || root == nullptr) return Results{};
  const auto scale_type = static_type(scale, scale->dtype());
  if (!scale_type) return Results{};
  // In the type of the statistics, whatever the activations are.
  const DType wide = root->dtype();
  Value* n = s.mul(s.cast(x, wide), root);
  Value* g = s.mul(s.cast(dy, wide), s.cast(scale, wide));
  Value* dx = s.mul(root, s.op("Sub", {g, s.mul(n, mean_of(s, s.mul(g, n), *axes))}));
  TensorType sum_type = *scale_type;
  sum_type.dtype = wide;
  Value* dscale = typed_op(s, "SumTo", {s.mul(s.cast(dy, wide), n)}, {}, sum_type);
  return Results{s.cast(dx, x->dtype()), s.cast(dscale, scale->dtype())};
}

// y, running mean, running variance, saved mean, saved 1 / deviation, by the batch's population
// variance.
StatusOr<Results> decompose_batch_norm_internal(Builder& builder, const Node& node) {
  const Attributes epsilon = {{"epsilon", node.float_attribute("epsilon", 1e-5F)}};
  if (node.int_attribute("training_mode", 1) == 0)
    return Results{builder.op("BatchNormalization", node.operands(), epsilon)};
  Attributes attributes = epsilon;
  attributes.emplace_back("momentum", node.float_attribute("momentum", 0.9F));
  return builder
      .node("BatchNormalizationTrain", node.operands(), 5, std::move(attributes), kMezzoDomain)
      ->results();
}

// dy, mask, ratio, training mode.
StatusOr<Results> decompose_dropout_grad(Builder& builder, const Node& node) {
  const auto ratio =
      node.operand(2) == nullptr ? std::optional(0.5) : constant_scalar(node.operand(2));
  if (!ratio || !(*ratio >= 0 && *ratio < 1) || node.operand(1) == nullptr) return Results{};
  return Results{builder.mezzo_op("DropoutGrad", {node.operand(0), node.operand(1)},
                                  {{"ratio", static_cast<float>(*ratio)}})};
}

// ONNX's attributes of a loss, and ignore_index where an operand gives it; false if that is not
// known.
bool loss_attributes(const Node& node, std::size_t ignored, Attributes& attributes) {
  attributes.emplace_back("reduction", node.string_attribute("reduction", "mean"));
  if (node.has_attribute("ignore_index"))
    attributes.emplace_back("ignore_index", node.int_attribute("ignore_index", -1));
  if (node.operand(ignored) == nullptr) return true;
  const auto index = constant_ints(node.operand(ignored));
  if (!index || index->size() != 1) return false;
  attributes.emplace_back("ignore_index", index->front());
  return true;
}

// The type that results are wanted in, of the Internal operators.
Value* in_output_type(const Sketch& s, Value* value) {
  const std::int64_t type = s.node().int_attribute("output_type", 0);
  return type == 0 ? value : s.cast(value, static_cast<DType>(type));
}

// Scores, labels, weights, ignore_index.
StatusOr<Results> decompose_loss_internal(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  Attributes attributes;
  if (!loss_attributes(node, 3, attributes)) return Results{};
  const Node* loss =
      builder.node("SoftmaxCrossEntropyLoss", {s.operand(0), s.operand(1), s.operand(2)}, 2,
                   std::move(attributes));
  return Results{in_output_type(s, loss->result(0)), in_output_type(s, loss->result(1))};
}

// dloss, log_prob, labels, weights; of the Internal one also ignore_index, and what is added.
StatusOr<Results> decompose_loss_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const bool internal = node.is("SoftmaxCrossEntropyLossInternalGrad", "com.microsoft");
  Attributes attributes;
  if (!loss_attributes(node, internal ? 4 : node.operand_count(), attributes)) return Results{};
  Value* grad = builder.mezzo_op("SoftmaxCrossEntropyLossGrad",
                                 {s.operand(0), s.operand(1), s.operand(2), s.operand(3)},
                                 std::move(attributes));
  if (!internal) return Results{grad};
  grad = in_output_type(s, grad);
  Value* bias = s.operand(5);
  if (bias == nullptr) return Results{grad};
  const auto dims = static_dims(grad);
  return dims ? Results{s.add(grad, s.reshape(bias, *dims))} : Results{};
}

// The joined tensor, and the extents of its parts.
StatusOr<Results> decompose_concat_training(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  std::int64_t axis = node.int_attribute("axis", 0);
  Ints extents;
  for (const Value* part : node.operands()) {
    const auto dims = static_dims(part);
    if (!dims) return Results{};
    const std::int64_t at = axis < 0 ? axis + static_cast<std::int64_t>(dims->size()) : axis;
    if (at < 0 || at >= static_cast<std::int64_t>(dims->size())) return Results{};
    extents.push_back((*dims)[static_cast<std::size_t>(at)]);
  }
  Value* joined = s.concat(node.operands(), axis);
  return Results{joined, node.result(1) == nullptr ? nullptr : builder.ints(extents)};
}

StatusOr<Results> decompose_split_training(Builder& builder, const Node& node) {
  if (!constant_ints(node.operand(1))) return Results{};
  return builder
      .node("Split", {node.operand(0), node.operand(1)}, node.results().size(),
            {{"axis", node.int_attribute("axis", 0)}})
      ->results();
}

StatusOr<Results> decompose_reduce_sum_training(Builder& builder, const Node& node) {
  const auto axes = constant_ints(node.operand(1));
  if (!axes) return Results{};
  if (axes->empty() && node.int_attribute("noop_with_empty_axes", 0) != 0)
    return Results{builder.op("Identity", {node.operand(0)})};
  return Results{builder.op("ReduceSum", {node.operand(0), node.operand(1)},
                            {{"keepdims", node.int_attribute("keepdims", 1)}})};
}

// x times or over a number of any type, of one element.
StatusOr<Results> decompose_scale(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  Value* factor = s.operand(1);
  if (factor == nullptr || !factor->type.is_tensor()) return Results{};
  if (const auto number = constant_scalar(factor)) {
    factor = s.number(s.dtype(), *number);
  } else {
    factor = s.cast(s.reshape(factor, {}), s.dtype());
  }
  const bool down = node.int_attribute("scale_down", 0) != 0;
  return Results{s.op(down ? "Div" : "Mul", {s.operand(0), factor})};
}

// The dimensions in which a and b are repeated when they are broadcast to each other.
StatusOr<Results> decompose_broadcast_axes(Builder& builder, const Node& node) {
  const auto a = shape_given(node.operand(0));
  const auto b = shape_given(node.operand(1));
  if (!a || !b) return Results{};
  const std::size_t rank = std::max(a->size(), b->size());
  const auto axes_of = [&](const Ints& mine, const Ints& other) {
    Ints axes;
    for (std::size_t i = rank; i-- > 0;) {
      const auto extent = [&](const Ints& dims) {
        const std::size_t missing = rank - dims.size();
        return i < missing ? std::int64_t{0} : dims[i - missing];  // 0: there is no such dimension
      };
      const bool absent = i < rank - mine.size();
      if (absent || (extent(mine) == 1 && extent(other) != 1 && i >= rank - other.size()))
        axes.push_back(static_cast<std::int64_t>(i));
    }
    return axes;
  };
  Results results(2, nullptr);
  if (node.result(0) != nullptr) results[0] = builder.ints(axes_of(*a, *b));
  if (node.result(1) != nullptr) results[1] = builder.ints(axes_of(*b, *a));
  return results;
}

// da = dy / b, db = -dy a / b^2, summed where a and b were broadcast.
StatusOr<Results> decompose_div_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  Value *dy = s.operand(0), *a = s.operand(1), *b = s.operand(2);
  if (a == nullptr || b == nullptr) return Results{};
  const auto a_type = static_type(a, s.dtype());
  const auto b_type = static_type(b, s.dtype());
  if (!a_type || !b_type) return Results{};
  Value* da = s.op("Div", {dy, b});
  Value* db = s.op("Neg", {s.op("Div", {s.mul(da, a), b})});
  Results results(2, nullptr);
  if (node.result(0) != nullptr) results[0] = typed_op(s, "SumTo", {da}, {}, *a_type);
  if (node.result(1) != nullptr) results[1] = typed_op(s, "SumTo", {db}, {}, *b_type);
  return results;
}

// Done, and the buffer's next content: the value alone where it starts anew.
StatusOr<Results> decompose_accumulator(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  if (s.operand(1) == nullptr) return Results{};
  Results results(2, nullptr);
  const std::vector<std::byte> yes(1, std::byte{1});
  results[0] = builder.constant(Tensor::from_bytes(DType::kBool, {1}, yes), "updated");
  if (node.result(1) != nullptr) {
    Value* value = s.cast(s.operand(1), s.dtype());
    Value* sum = s.op("Add", {s.operand(0), value});
    results[1] = s.operand(2) == nullptr ? sum : s.op("Where", {s.operand(2), value, sum});
  }
  return results;
}

struct Entry {
  std::string_view op;
  DecompositionRule rule;
};

constexpr Entry kRules[] = {
    {"AveragePoolGrad", decompose_average_pool_grad},
    {"BatchNormInternal", decompose_batch_norm_internal},
    {"BatchNormalizationGrad", decompose_batch_norm_grad},
    {"BiasFastGeluGrad_dX", decompose_gelu_grad},
    {"BiasGeluGrad_dX", decompose_gelu_grad},
    {"BroadcastGradientArgs", decompose_broadcast_axes},
    {"ConcatTraining", decompose_concat_training},
    {"ConvGrad", decompose_conv_grad},
    {"ConvTransposeGrad", decompose_conv_transpose_grad},
    {"DivGrad", decompose_div_grad},
    {"DropoutGrad", decompose_dropout_grad},
    {"FastGeluGrad", decompose_gelu_grad},
    {"GatherElementsGrad", decompose_gather_elements_grad},
    {"GatherGrad", decompose_gather_grad},
    {"GatherNDGrad", decompose_gather_nd_grad},
    {"GeluGrad", decompose_gelu_grad},
    {"InPlaceAccumulatorV2", decompose_accumulator},
    {"LayerNormalizationGrad", decompose_layer_norm_grad},
    {"LeakyReluGrad", decompose_leaky_relu_grad},
    {"LogSoftmaxGrad", decompose_softmax_grad},
    {"LogSoftmaxGrad_13", decompose_softmax_grad},
    {"MaxPoolGrad", decompose_max_pool_grad},
    {"QuickGeluGrad", decompose_quick_gelu_grad},
    {"ReduceSumTraining", decompose_reduce_sum_training},
    {"ReluGrad", decompose_unary<kRelu>},
    {"Scale", decompose_scale},
    {"SigmoidGrad", decompose_unary<kSigmoid>},
    {"SimplifiedLayerNormalizationGrad", decompose_simplified_norm_grad},
    {"SliceGrad", decompose_slice_grad},
    {"SoftmaxCrossEntropyLossGrad", decompose_loss_grad},
    {"SoftmaxCrossEntropyLossInternal", decompose_loss_internal},
    {"SoftmaxCrossEntropyLossInternalGrad", decompose_loss_grad},
    {"SoftmaxGrad", decompose_softmax_grad},
    {"SoftmaxGrad_13", decompose_softmax_grad},
    {"SplitTraining", decompose_split_training},
    {"TanhGrad", decompose_unary<kTanh>},
};

// Operators that ONNX Runtime puts into ONNX's own domain, where ONNX has none of these names.
constexpr std::string_view kInOnnxDomain[] = {"AveragePoolGrad", "ConvGrad", "MaxPoolGrad"};

}  // namespace

StatusOr<Results> decompose_norm_with_root(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  Value *x = s.operand(0), *scale = s.operand(1);
  const auto axes = normalised_axes(node, x);
  if (!axes || scale == nullptr) return Results{};
  const Type& wanted = node.result(1)->type;
  const DType wide = wanted.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Value* exact = s.cast(x, wide);
  Value* square = s.add(mean_of(s, s.mul(exact, exact), *axes),
                        s.number(wide, node.float_attribute("epsilon", 1e-5F)));
  Value* root = s.op("Reciprocal", {s.op("Sqrt", {square})});
  Value* y = s.mul(s.mul(exact, root), s.cast(scale, wide));
  return Results{s.cast(y, scale->dtype()), root};
}

DecompositionRule contrib_training_rule(std::string_view op) {
  for (const Entry& entry : kRules) {
    if (entry.op == op) return entry.rule;
  }
  return nullptr;
}

bool is_training_op_of_onnx_domain(std::string_view op) {
  return std::find(std::begin(kInOnnxDomain), std::end(kInOnnxDomain), op) !=
         std::end(kInOnnxDomain);
}

}  // namespace mezzo
