// Private to compiler/ops: operators of ONNX Runtime's training artifacts in ones with kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ops/decompose_contrib.h"

namespace mezzo {

// The rule of an operator of com.microsoft; null if there is none.
DecompositionRule contrib_training_rule(std::string_view op);

// MaxPoolGrad and its like, which the artifacts hold in ONNX's own domain.
bool is_training_op_of_onnx_domain(std::string_view op);

// A node of ours whose result has this type.
Value* typed_op(const Sketch& s, std::string_view op, std::vector<Value*> operands,
                std::vector<Builder::NamedValue> attributes, const TensorType& type);

// The type of `value` with this element type; nothing where its dims are not all known.
std::optional<TensorType> static_type(const Value* value, DType dtype);

// Dims given by a shape operand: a constant, or Shape of a value whose dims are known.
std::optional<std::vector<std::int64_t>> shape_given(const Value* shape);

// decompose_contrib_gradients.cpp
StatusOr<Results> decompose_conv_grad(Builder& builder, const Node& node);
StatusOr<Results> decompose_conv_transpose_grad(Builder& builder, const Node& node);
StatusOr<Results> decompose_max_pool_grad(Builder& builder, const Node& node);
StatusOr<Results> decompose_average_pool_grad(Builder& builder, const Node& node);
StatusOr<Results> decompose_gather_grad(Builder& builder, const Node& node);
StatusOr<Results> decompose_gather_elements_grad(Builder& builder, const Node& node);
StatusOr<Results> decompose_gather_nd_grad(Builder& builder, const Node& node);
StatusOr<Results> decompose_slice_grad(Builder& builder, const Node& node);

}  // namespace mezzo
