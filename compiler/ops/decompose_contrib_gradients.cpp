// Gradients of convolutions, pools, gathers and slices: operators whose results' dims no operand's
// dims tell. They come from the shape operand, the forward node, or the model's notes.
#include <optional>
#include <string>

#include "compiler/ops/constants.h"
#include "compiler/ops/decompose_contrib_training.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/window.h"

namespace mezzo {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kMostIndices = std::int64_t{1} << 22;  // coordinates become a constant

// Dims by a shape operand, or else what the model says of the result.
std::optional<TensorType> result_type(const Node& node, const Value* shape, DType dtype) {
  if (const auto dims = shape_given(shape)) return TensorType::of(dtype, *dims);
  return static_type(node.result(0), dtype);
}

// indices[b0, .., k] with the batch's own coordinates in front of the k: ScatterND knows no
// batches.
Value* with_batch_coordinates(const Sketch& s, Value* indices, const Ints& dims,
                              std::int64_t batch_dims) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) rows *= dims[i];
  Ints grid;
  for (std::int64_t row = 0; row < rows; ++row) {
    Ints place(dims.size() - 1);
    std::int64_t rest = row;
    for (std::size_t i = dims.size() - 1; i-- > 0; rest /= dims[i]) place[i] = rest % dims[i];
    grid.insert(grid.end(), place.begin(), place.begin() + batch_dims);
  }
  Ints grid_dims(dims.begin(), dims.end() - 1);
  grid_dims.push_back(batch_dims);
  Value* coordinates = s.builder().constant(Tensor::from_ints(grid_dims, grid), "coordinates");
  return s.concat({coordinates, s.cast(indices, DType::kInt64)}, -1);
}

}  // namespace

Value* typed_op(const Sketch& s, std::string_view op, std::vector<Value*> operands,
                std::vector<Builder::NamedValue> attributes, const TensorType& type) {
  Value* value = s.builder().mezzo_op(op, std::move(operands), std::move(attributes));
  value->type = type;
  return value;
}

std::optional<TensorType> static_type(const Value* value, DType dtype) {
  const auto dims = static_dims(value);
  return dims ? std::optional(TensorType::of(dtype, *dims)) : std::nullopt;
}

std::optional<Ints> shape_given(const Value* shape) {
  if (auto dims = constant_ints(shape)) return dims;
  const Node* producer = shape == nullptr ? nullptr : shape->producer();
  const bool whole = producer != nullptr && producer->is("Shape") &&
                     producer->int_attribute("start", 0) == 0 && !producer->has_attribute("end");
  return whole ? static_dims(producer->operand(0)) : std::nullopt;
}

// dy, x, w -> dx, dw, db.
StatusOr<Results> decompose_conv_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  Value *dy = s.operand(0), *x = s.operand(1), *w = s.operand(2);
  if (dy == nullptr || x == nullptr || w == nullptr) return Results{};
  const auto x_type = static_type(x, dy->dtype());
  const auto w_type = static_type(w, dy->dtype());
  if (!x_type || !w_type) return Results{};
  MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(node, *x, w));
  auto attributes = window_attributes(window);
  attributes.emplace_back("group", node.int_attribute("group", 1));
  const auto wanted = [&](std::size_t i) { return node.result(i) != nullptr; };
  Results results(3, nullptr);
  if (wanted(0)) results[0] = typed_op(s, "ConvGradInput", {dy, w}, attributes, *x_type);
  if (wanted(1)) results[1] = typed_op(s, "ConvGradWeight", {dy, x}, attributes, *w_type);
  if (wanted(2)) results[2] = builder.mezzo_op("ConvGradBias", {dy});
  return results;
}

// dy, x, w -> dx, dw, db, by the rule of ConvTranspose itself.
StatusOr<Results> decompose_conv_transpose_grad(Builder& builder, const Node& node) {
  Value *dy = node.operand(0), *x = node.operand(1), *w = node.operand(2);
  if (!static_dims(dy) || !static_dims(x) || !static_dims(w)) return Results{};
  std::vector<Builder::NamedValue> attributes;
  for (const Attribute& attribute : node.attributes())
    attributes.emplace_back(attribute.name, attribute.value);
  Node* forward = builder.node("ConvTranspose", {x, w}, 1, std::move(attributes));
  forward->result()->type = dy->type;
  const auto wanted = [&](std::size_t i) { return node.result(i) != nullptr; };
  GradientContext ctx{builder, *forward, {dy}, {wanted(0), wanted(1)}};
  MEZZO_ASSIGN_OR_RETURN(Results results, find_op("ConvTranspose", "")->gradient(ctx));
  results.push_back(wanted(2) ? builder.mezzo_op("ConvGradBias", {dy}) : nullptr);
  builder.graph().erase(forward);
  return results;
}

// dy and the forward node's indices; the dims of dx are those of the forward node's x.
StatusOr<Results> decompose_max_pool_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  if (node.int_attribute("storage_order", 0) != 0 || s.operand(1) == nullptr) return Results{};
  const Node* pool = s.operand(1)->producer();
  auto type = pool != nullptr && pool->is("MaxPool") ? static_type(pool->operand(0), s.dtype())
                                                     : std::nullopt;
  if (!type) type = static_type(node.result(0), s.dtype());
  if (!type) return Results{};
  return Results{typed_op(s, "MaxPoolGrad", {s.operand(0), s.operand(1)}, {}, *type)};
}

// Nothing but the model's note tells the spatial dims of dx; batch and channels are those of dy.
StatusOr<Results> decompose_average_pool_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const Value* dx = node.result(0);
  if (dx == nullptr || !dx->type.is_tensor() || !dx->tensor_type().shape) return Results{};
  std::vector<Dim> dims = *dx->tensor_type().shape;
  const auto dy = static_dims(s.operand(0));
  if (!dy || dy->size() != dims.size() || dims.size() < 3) return Results{};
  for (std::size_t i = 0; i < 2; ++i) dims[i] = Dim((*dy)[i]);
  const TensorType type(s.dtype(), dims);
  if (!type.has_static_shape()) return Results{};
  MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(node, *dx, nullptr));
  auto attributes = window_attributes(window);
  for (const char* name : {"count_include_pad", "ceil_mode"})
    attributes.emplace_back(name, node.int_attribute(name, 0));
  return Results{typed_op(s, "AveragePoolGrad", {s.operand(0)}, attributes, type)};
}

// Shape, indices, dy.
StatusOr<Results> decompose_gather_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  if (s.operand(2) == nullptr) return Results{};
  const auto type = result_type(node, s.operand(0), s.operand(2)->dtype());
  if (!type) return Results{};
  return Results{typed_op(s, "GatherGrad", {s.operand(2), s.operand(1)},
                          {{"axis", node.int_attribute("axis", 0)}}, *type)};
}

// dy, shape, indices.
StatusOr<Results> decompose_gather_elements_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const auto type = result_type(node, s.operand(1), s.dtype());
  if (!type || s.operand(2) == nullptr) return Results{};
  Value* zeros = typed_op(s, "FillZero", {}, {}, *type);
  return Results{
      s.op("ScatterElements", {zeros, s.operand(2), s.operand(0)},
           {{"axis", node.int_attribute("axis", 0)}, {"reduction", std::string("add")}})};
}

// Shape, indices, dy.
StatusOr<Results> decompose_gather_nd_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  Value *indices = s.operand(1), *dy = s.operand(2);
  if (indices == nullptr || dy == nullptr) return Results{};
  const auto type = result_type(node, s.operand(0), dy->dtype());
  const auto dims = static_dims(indices);
  const std::int64_t batch_dims = node.int_attribute("batch_dims", 0);
  if (!type || !dims || dims->empty() || dims->back() == 0 || batch_dims < 0 ||
      batch_dims >= static_cast<std::int64_t>(dims->size()) ||
      indices->tensor_type().elems() > kMostIndices)
    return Results{};
  if (batch_dims > 0) indices = with_batch_coordinates(s, indices, *dims, batch_dims);
  Value* zeros = typed_op(s, "FillZero", {}, {}, *type);
  return Results{s.op("ScatterND", {zeros, indices, dy}, {{"reduction", std::string("add")}})};
}

// dy, shape, starts, ends, axes, steps.
StatusOr<Results> decompose_slice_grad(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const auto type = result_type(node, s.operand(1), s.dtype());
  const auto starts = constant_ints(s.operand(2));
  const auto ends = constant_ints(s.operand(3));
  if (!type || !starts || !ends) return Results{};
  Ints axes, steps(starts->size(), 1);
  for (std::size_t i = 0; i < starts->size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  for (auto& [operand, list] : {std::pair<std::size_t, Ints*>{4, &axes}, {5, &steps}}) {
    if (s.operand(operand) == nullptr) continue;
    const auto given = constant_ints(s.operand(operand));
    if (!given) return Results{};
    *list = *given;
  }
  if (ends->size() != starts->size() || axes.size() != starts->size() ||
      steps.size() != starts->size())
    return Results{};
  return Results{typed_op(s, "SliceGrad", {s.operand(0)},
                          {{"starts", *starts}, {"ends", *ends}, {"axes", axes}, {"steps", steps}},
                          *type)};
}

}  // namespace mezzo
