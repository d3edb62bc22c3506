// Private to compiler/ops: operators of com.microsoft in ONNX's own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/decompose_rules.h"

namespace mezzo {

using DecompositionRule = StatusOr<Results> (*)(Builder&, const Node&);

// The rule of an operator of com.microsoft; null if there is none.
DecompositionRule contrib_rule(std::string_view op);

// Short forms the rules share.
class Sketch {
 public:
  Sketch(Builder& builder, const Node& node) : builder_(builder), node_(node) {}

  const Node& node() const { return node_; }
  Builder& builder() const { return builder_; }
  Value* operand(std::size_t i) const { return node_.operand(i); }
  DType dtype() const { return node_.operand(0)->dtype(); }

  Value* op(std::string_view name, std::vector<Value*> operands,
            std::vector<Builder::NamedValue> attributes = {}) const {
    return builder_.op(name, std::move(operands), std::move(attributes));
  }
  Value* number(DType dtype, double value) const { return builder_.scalar(dtype, value); }
  Value* add(Value* a, Value* b) const { return b == nullptr ? a : op("Add", {a, b}); }
  Value* mul(Value* a, Value* b) const { return op("Mul", {a, b}); }
  Value* scaled(Value* a, double factor) const {
    return factor == 1.0 ? a : mul(a, number(a->dtype(), factor));
  }
  Value* cast(Value* a, DType to) const {
    return a->dtype() == to ? a : op("Cast", {a}, {{"to", static_cast<std::int64_t>(to)}});
  }
  // A 0 keeps the dimension, a -1 takes the rest.
  Value* reshape(Value* a, const std::vector<std::int64_t>& dims) const {
    return op("Reshape", {a, builder_.ints(dims)});
  }
  Value* transpose(Value* a, std::vector<std::int64_t> perm) const {
    return op("Transpose", {a}, {{"perm", std::move(perm)}});
  }
  Value* concat(std::vector<Value*> parts, std::int64_t axis) const {
    return op("Concat", std::move(parts), {{"axis", axis}});
  }
  Value* slice(Value* a, std::int64_t axis, std::int64_t begin, std::int64_t end) const {
    return op("Slice", {a, builder_.ints({begin}), builder_.ints({end}), builder_.ints({axis})});
  }
  Value* unsqueeze(Value* a, const std::vector<std::int64_t>& axes) const {
    return op("Unsqueeze", {a, builder_.ints(axes)});
  }
  Value* squeeze(Value* a, const std::vector<std::int64_t>& axes) const {
    return op("Squeeze", {a, builder_.ints(axes)});
  }
  // Gelu of the error function, or of tanh.
  Value* gelu(Value* x, bool tanh) const {
    return builder_.op("Gelu", {x}, {{"approximate", std::string(tanh ? "tanh" : "none")}},
                       kMezzoDomain);
  }
  // Results y, mean, 1 / deviation.
  Node* layer_norm(Value* x, Value* scale, Value* bias, std::size_t results) const {
    return builder_.node(
        "LayerNormalization", {x, scale, bias}, results,
        {{"axis", std::int64_t{-1}}, {"epsilon", node_.float_attribute("epsilon", 1e-12F)}},
        kMezzoDomain);
  }
  // The activation that a product is fused with; null for one we do not know.
  Value* activation(Value* x, const std::string& name, const std::vector<float>& parameters) const;

 private:
  Builder& builder_;
  const Node& node_;
};

// SimplifiedLayerNormalization whose 1 / root mean square is wanted
// (decompose_contrib_training.cpp).
StatusOr<Results> decompose_norm_with_root(Builder& builder, const Node& node);

// decompose_contrib_attention.cpp
StatusOr<Results> decompose_contrib_attention(Builder& builder, const Node& node);
StatusOr<Results> decompose_multi_head_attention(Builder& builder, const Node& node);
StatusOr<Results> decompose_contrib_rotary(Builder& builder, const Node& node);

// decompose_contrib_quantized.cpp
StatusOr<Results> decompose_matmul_n_bits(Builder& builder, const Node& node);
StatusOr<Results> decompose_integer_product(Builder& builder, const Node& node);
StatusOr<Results> decompose_dynamic_product(Builder& builder, const Node& node);
StatusOr<Results> decompose_quantized_gemm(Builder& builder, const Node& node);
StatusOr<Results> decompose_quantized(Builder& builder, const Node& node);

}  // namespace mezzo
