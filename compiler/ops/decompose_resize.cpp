// Resize as products with interpolation matrices: interpolation is linear and separable, so each
// resized dimension is one product with a constant matrix [out, in], whose gradient is the product
// with its transpose. ONNX, operator Resize, for the coordinate formulas.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "compiler/ops/constants.h"
#include "compiler/ops/decompose_rules.h"

namespace mezzo {
namespace {

// A matrix beyond this is not worth its memory.
constexpr std::int64_t kMostMatrixElems = std::int64_t{1} << 24;

struct Axis {
  std::int64_t in = 0, out = 0;
  double scale = 1.0;
};

// The position in the input of an output's index; nullopt for modes that are not covered.
std::optional<double> position(const std::string& mode, const Axis& axis, std::int64_t index) {
  const double at = static_cast<double>(index);
  const double out = static_cast<double>(axis.out), in = static_cast<double>(axis.in);
  if (mode == "half_pixel") return (at + 0.5) / axis.scale - 0.5;
  if (mode == "pytorch_half_pixel") return out > 1 ? (at + 0.5) / axis.scale - 0.5 : 0.0;
  if (mode == "align_corners") return out > 1 ? at * (in - 1) / (out - 1) : 0.0;
  if (mode == "asymmetric") return at / axis.scale;
  return std::nullopt;
}

std::optional<double> nearest(const std::string& mode, double at) {
  if (mode == "round_prefer_floor") return std::ceil(at - 0.5);
  if (mode == "round_prefer_ceil") return std::floor(at + 0.5);
  if (mode == "floor") return std::floor(at);
  if (mode == "ceil") return std::ceil(at);
  return std::nullopt;
}

// Row-major [out, in]; nullopt where the attributes ask for something else.
std::optional<std::vector<float>> interpolation(const Node& node, const Axis& axis) {
  const std::string coordinates =
      node.string_attribute("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = node.string_attribute("nearest_mode", "round_prefer_floor");
  const bool linear = node.string_attribute("mode", "nearest") == "linear";
  std::vector<float> matrix(axis.out * axis.in, 0.0F);
  const auto last = static_cast<double>(axis.in - 1);
  for (std::int64_t row = 0; row < axis.out; ++row) {
    const auto at = position(coordinates, axis, row);
    if (!at) return std::nullopt;
    float* weights = &matrix[row * axis.in];
    if (!linear) {
      const auto chosen = nearest(rounding, *at);
      if (!chosen) return std::nullopt;
      weights[static_cast<std::int64_t>(std::clamp(*chosen, 0.0, last))] = 1.0F;
      continue;
    }
    const double below = std::floor(*at);
    const double fraction = *at - below;
    weights[static_cast<std::int64_t>(std::clamp(below, 0.0, last))] +=
        static_cast<float>(1.0 - fraction);
    weights[static_cast<std::int64_t>(std::clamp(below + 1.0, 0.0, last))] +=
        static_cast<float>(fraction);
  }
  return matrix;
}

// Scales per dimension of x. nullopt where they depend on the run or are of another form.
std::optional<std::vector<Axis>> resized_axes(const Node& node) {
  const auto in = static_dims(node.operand(0));
  const auto out = static_dims(node.result());
  if (!in || !out || in->size() != out->size()) return std::nullopt;
  std::vector<Axis> axes(in->size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t from = (*in)[i], to = (*out)[i];
    if (from <= 0 || to <= 0) return std::nullopt;
    axes[i] = {from, to, static_cast<double>(to) / static_cast<double>(from)};
  }
  const TensorRef scales = constant_of(node.operand(2));
  if (node.operand(3) != nullptr || node.operand(2) == nullptr) return axes;
  if (!scales) return std::nullopt;  // the result's size does not tell them exactly
  if (scales->elems() == 0) return axes;
  const std::vector<double> factors = scales->to_doubles();
  if (factors.size() != axes.size() || node.has_attribute("axes")) return std::nullopt;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!(factors[i] > 0.0)) return std::nullopt;
    axes[i].scale = factors[i];
  }
  return axes;
}

bool is_covered(const Node& node) {
  const std::string mode = node.string_attribute("mode", "nearest");
  return (mode == "nearest" || mode == "linear") && node.operand(0) != nullptr &&
         node.result() != nullptr && is_floating(node.operand(0)->dtype()) &&
         node.int_attribute("antialias", 0) == 0 &&
         node.string_attribute("keep_aspect_ratio_policy", "stretch") == "stretch";
}

Value* matrix_constant(Builder& builder, const std::vector<float>& matrix, std::int64_t rows,
                       std::int64_t columns, bool transposed, DType dtype) {
  std::vector<float> values = matrix;
  if (transposed) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) values[c * rows + r] = matrix[r * columns + c];
    }
    std::swap(rows, columns);
  }
  TensorRef tensor = Tensor::from_floats({rows, columns}, values);
  if (dtype != DType::kFloat32) tensor = Tensor::cast_of(tensor, dtype, false);
  return builder.constant(std::move(tensor), "interpolation");
}

}  // namespace

StatusOr<Results> decompose_resize(Builder& builder, const Node& node) {
  if (!is_covered(node)) return Results{};
  const auto axes = resized_axes(node);
  if (!axes || axes->empty()) return Results{};
  const std::size_t rank = axes->size();
  std::vector<std::optional<std::vector<float>>> matrices(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const Axis& axis = (*axes)[i];
    if (axis.in == axis.out && axis.scale == 1.0) continue;
    if (i + 2 < rank || axis.in > kMostMatrixElems / axis.out) return Results{};
    matrices[i] = interpolation(node, axis);
    if (!matrices[i]) return Results{};
  }
  Value* value = node.operand(0);
  const DType dtype = value->dtype();
  if (matrices[rank - 1]) {
    const Axis& axis = axes->back();
    Value* columns = matrix_constant(builder, *matrices[rank - 1], axis.out, axis.in, true, dtype);
    value = builder.op("MatMul", {value, columns});
  }
  if (rank >= 2 && matrices[rank - 2]) {
    const Axis& axis = (*axes)[rank - 2];
    Value* rows = matrix_constant(builder, *matrices[rank - 2], axis.out, axis.in, false, dtype);
    value = builder.op("MatMul", {rows, value});
  }
  if (value == node.operand(0)) value = builder.op("Identity", {value});
  return Results{value};
}

}  // namespace mezzo
