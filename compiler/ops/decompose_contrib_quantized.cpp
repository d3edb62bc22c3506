// Quantised operators of com.microsoft. Elementwise ones and pools are what they stand for:
// dequantise, compute in FP32, quantise again.
#include <optional>

#include "compiler/ops/constants.h"
#include "compiler/ops/decompose_contrib.h"

namespace mezzo {
namespace {

using Ints = std::vector<std::int64_t>;

// (x - zero) scale in the scale's type. Null scales give null.
Value* dequantize(const Sketch& s, Value* x, Value* scale, Value* zero) {
  return s.op("DequantizeLinear", {x, scale, zero});
}
Value* quantize(const Sketch& s, Value* x, Value* scale, Value* zero) {
  return s.op("QuantizeLinear", {x, scale, zero});
}

std::vector<Builder::NamedValue> attributes_of(const Node& node) {
  std::vector<Builder::NamedValue> attributes;
  for (const Attribute& attribute : node.attributes()) {
    attributes.emplace_back(attribute.name, attribute.value);
  }
  return attributes;
}

// The low (of even places) and high half of every byte: [.., n] -> [.., 2 n].
Value* nibbles(const Sketch& s, Value* bytes, const Ints& wide_dims) {
  Value* low = s.op("BitwiseAnd", {bytes, s.number(DType::kUInt8, 15.0)});
  Value* high = s.op("BitShift", {bytes, s.number(DType::kUInt8, 4.0)},
                     {{"direction", std::string("RIGHT")}});
  Value* pairs = s.concat({s.unsqueeze(low, {-1}), s.unsqueeze(high, {-1})}, -1);
  return s.reshape(pairs, wide_dims);
}

}  // namespace

// a[.., K] times the matrix whose columns n are packed as b[N, blocks, bytes]: blocks of block_size
// numbers of 4 or 8 bits with a scale and a zero point each (8 or 128 where there are none).
StatusOr<Results> decompose_matmul_n_bits(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const std::int64_t k = node.int_attribute("K", 0), n = node.int_attribute("N", 0);
  const std::int64_t bits = node.int_attribute("bits", 4);
  const std::int64_t block = node.int_attribute("block_size", 0);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const bool sensible = k >= 1 && k < kMost && n >= 1 && n < kMost && block >= 1 && block < kMost;
  if ((bits != 4 && bits != 8) || !sensible || node.operand(4) != nullptr) return Results{};
  const std::int64_t blocks = (k + block - 1) / block;
  Value* q = node.operand(1);
  Value* zero = node.operand(3);
  const DType dtype = s.dtype();
  q = bits == 4 ? nibbles(s, q, {n, blocks, block}) : s.reshape(q, {n, blocks, block});
  q = s.cast(q, dtype);
  if (zero == nullptr) {
    q = s.op("Sub", {q, s.number(dtype, bits == 4 ? 8.0 : 128.0)});
  } else if (zero->dtype() == DType::kUInt8) {
    if (bits == 4) {  // rows of whole bytes
      const std::int64_t row = (blocks + 1) / 2;
      zero = nibbles(s, s.reshape(zero, {n, row}), {n, 2 * row});
      zero = s.slice(zero, 1, 0, blocks);
    }
    q = s.op("Sub", {q, s.cast(s.reshape(zero, {n, blocks, 1}), dtype)});
  } else {
    q = s.op("Sub", {q, s.reshape(zero, {n, blocks, 1})});
  }
  Value* w = s.mul(q, s.reshape(node.operand(2), {n, blocks, 1}));
  w = s.reshape(w, {n, blocks * block});
  if (blocks * block != k) w = s.slice(w, 1, 0, k);
  Value* y = s.op("MatMul", {node.operand(0), s.transpose(w, {1, 0})});
  return Results{s.add(y, node.operand(5))};
}

// (a - a_zero)(b - b_zero) a_scale b_scale + bias, in FP32.
StatusOr<Results> decompose_integer_product(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  Value* sum =
      s.op("MatMulInteger", {node.operand(0), node.operand(1), node.operand(4), node.operand(5)});
  Value* scale = s.mul(node.operand(2), node.operand(3));
  return Results{s.add(s.mul(s.cast(sum, scale->dtype()), scale), node.operand(6))};
}

// The same with `a` quantised on the way: a, b, b_scale, b_zero?, bias?.
StatusOr<Results> decompose_dynamic_product(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const Node* quantized = builder.node("DynamicQuantizeLinear", {node.operand(0)}, 3);
  Value* sum = s.op("MatMulInteger",
                    {quantized->result(0), node.operand(1), quantized->result(2), node.operand(3)});
  Value* scale = s.mul(quantized->result(1), node.operand(2));
  return Results{s.add(s.mul(s.cast(sum, DType::kFloat32), scale), node.operand(4))};
}

// a, a_scale, a_zero, b, b_scale, b_zero, c?, y_scale?, y_zero?; without y_scale the result is
// FP32.
StatusOr<Results> decompose_quantized_gemm(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const auto turned = [&](Value* x, const char* name) {
    return node.int_attribute(name, 0) != 0 ? s.transpose(x, {1, 0}) : x;
  };
  Value* sum =
      s.op("MatMulInteger", {turned(node.operand(0), "transA"), turned(node.operand(3), "transB"),
                             node.operand(2), node.operand(5)});
  Value* scale =
      s.scaled(s.mul(node.operand(1), node.operand(4)), node.float_attribute("alpha", 1.0F));
  // c is int32 in units of alpha a_scale b_scale.
  if (node.operand(6) != nullptr) sum = s.op("Add", {sum, node.operand(6)});
  Value* y = s.mul(s.cast(sum, scale->dtype()), scale);
  if (node.operand(7) != nullptr) y = quantize(s, y, node.operand(7), node.operand(8));
  return Results{y};
}

StatusOr<Results> decompose_quantized(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const std::string& op = node.op_type();
  if (op == "QLinearConcat") {  // y_scale, y_zero, then x, scale, zero of every part
    std::vector<Value*> parts;
    for (std::size_t i = 2; i + 2 < node.operand_count(); i += 3) {
      parts.push_back(dequantize(s, node.operand(i), node.operand(i + 1), node.operand(i + 2)));
    }
    if (parts.empty()) return Results{};
    Value* y = s.concat(parts, node.int_attribute("axis", 0));
    return Results{quantize(s, y, node.operand(0), node.operand(1))};
  }
  Value* x = dequantize(s, node.operand(0), node.operand(1), node.operand(2));
  if (op == "QLinearAdd" || op == "QLinearMul") {
    Value* other = dequantize(s, node.operand(3), node.operand(4), node.operand(5));
    Value* y = s.op(op == "QLinearAdd" ? "Add" : "Mul", {x, other});
    return Results{quantize(s, y, node.operand(6), node.operand(7))};
  }
  if (node.int_attribute("channels_last", 0) != 0) return Results{};
  Value* y = nullptr;
  auto attributes = attributes_of(node);
  std::erase_if(attributes, [](const auto& pair) {
    return pair.first == "channels_last" || pair.first == "opset";
  });
  if (op == "QLinearReduceMean") {
    const Ints axes = node.ints_attribute("axes");
    std::vector<Value*> operands = {x};
    if (!axes.empty()) operands.push_back(builder.ints(axes));
    y = s.op("ReduceMean", operands, {{"keepdims", node.int_attribute("keepdims", 1)}});
  } else if (op == "QLinearSoftmax") {
    const auto dims = static_dims(node.operand(0));
    const std::int64_t axis = node.int_attribute("axis", -1);
    const bool is_last =
        dims && (axis == -1 || axis == static_cast<std::int64_t>(dims->size()) - 1);
    // Before opset 13 all dimensions from the axis on were one.
    if (node.int_attribute("opset", 13) < 13 && !is_last) return Results{};
    y = s.op("Softmax", {x}, {{"axis", axis}});
  } else {
    y = s.op(op.substr(std::string_view("QLinear").size()), {x}, attributes);
  }
  return Results{quantize(s, y, node.operand(3), node.operand(4))};
}

}  // namespace mezzo
