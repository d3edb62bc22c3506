// What ONNX Runtime fuses when it optimises a model, taken apart: products with activations,
// biases with Gelu, residual sums with normalisations, embeddings. Formulas: its
// ContribOperators.md.
//
// Sums that the fused kernels keep wide inside are rounded to the operands' type here.
#include "compiler/ops/decompose_contrib.h"

#include <optional>

#include "compiler/ops/constants.h"

namespace mezzo {
namespace {

using Ints = std::vector<std::int64_t>;

std::optional<std::int64_t> rank_of(const Value* value) {
  if (value == nullptr || !value->type.is_tensor() || !value->tensor_type().shape) return {};
  return static_cast<std::int64_t>(value->tensor_type().shape->size());
}

// An operand of FusedMatMul as its product reads it. transBatch brings the first dimension behind
// the batches, trans exchanges the last two after that.
Value* product_operand(const Sketch& s, Value* x, std::int64_t rank, bool trans_batch, bool trans) {
  Ints perm;
  for (std::int64_t i = 0; i < rank; ++i) perm.push_back(i);
  if (trans_batch && rank > 2) {
    perm.erase(perm.begin());
    perm.insert(perm.end() - 1, 0);
  }
  if (trans) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  bool moves = false;
  for (std::int64_t i = 0; i < rank; ++i) moves = moves || perm[static_cast<std::size_t>(i)] != i;
  return moves ? s.transpose(x, perm) : x;
}

StatusOr<Results> decompose_fused_matmul(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const auto a_rank = rank_of(s.operand(0));
  const auto b_rank = rank_of(s.operand(1));
  if (!a_rank || !b_rank || *a_rank < 2 || *b_rank < 2) return Results{};
  const auto flag = [&](const char* name) { return node.int_attribute(name, 0) != 0; };
  Value* a = product_operand(s, s.operand(0), *a_rank, flag("transBatchA"), flag("transA"));
  Value* b = product_operand(s, s.operand(1), *b_rank, flag("transBatchB"), flag("transB"));
  const float alpha = node.float_attribute("alpha", 1.0F);
  Value* y = *a_rank == *b_rank ? builder.mezzo_op("MatMulT", {a, b}, {{"alpha", alpha}})
                                : s.scaled(s.op("MatMul", {a, b}), alpha);
  if (node.is("FusedMatMulActivation", "com.microsoft")) {
    std::vector<float> parameters;
    for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
      if (node.has_attribute(name)) parameters.push_back(node.float_attribute(name, 0.0F));
    }
    y = s.activation(y, node.string_attribute("activation", ""), parameters);
  }
  return y == nullptr ? Results{} : Results{y};
}

StatusOr<Results> decompose_fused_gemm(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  std::vector<Builder::NamedValue> attributes;
  for (const char* name : {"transA", "transB"}) {
    attributes.emplace_back(name, node.int_attribute(name, 0));
  }
  for (const char* name : {"alpha", "beta"}) {
    attributes.emplace_back(name, node.float_attribute(name, 1.0F));
  }
  Value* y = s.op("Gemm", {s.operand(0), s.operand(1), s.operand(2)}, attributes);
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (node.has_attribute(name)) parameters.push_back(node.float_attribute(name, 0.0F));
  }
  y = s.activation(y, node.string_attribute("activation", ""), parameters);
  return y == nullptr ? Results{} : Results{y};
}

// Conv, plus z, then the activation.
StatusOr<Results> decompose_fused_conv(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  std::vector<Builder::NamedValue> attributes;
  for (const Attribute& attribute : node.attributes()) {
    if (attribute.name.rfind("activation", 0) != 0) {
      attributes.emplace_back(attribute.name, attribute.value);
    }
  }
  Value* y = s.op("Conv", {s.operand(0), s.operand(1), s.operand(2)}, attributes);
  y = s.add(y, s.operand(3));
  const Attribute* given = node.attribute("activation_params");
  const auto* parameters = given ? std::get_if<std::vector<float>>(&given->value) : nullptr;
  y = s.activation(y, node.string_attribute("activation", ""),
                   parameters ? *parameters : std::vector<float>());
  return y == nullptr ? Results{} : Results{y};
}

StatusOr<Results> decompose_gemm_fast_gelu(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  return Results{s.gelu(s.add(s.op("MatMul", {s.operand(0), s.operand(1)}), s.operand(2)), true)};
}

StatusOr<Results> decompose_bias_gelu(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  return Results{s.gelu(s.add(s.operand(0), s.operand(1)), node.op_type() == "FastGelu")};
}

// Gelu(x), and x sigmoid(alpha x).
StatusOr<Results> decompose_gelu(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  return Results{s.gelu(s.operand(0), false)};
}

StatusOr<Results> decompose_quick_gelu(Builder& builder, const Node& node) {
  const float alpha = node.float_attribute("alpha", 1.702F);
  return Results{builder.mezzo_op("Swish", {node.operand(0)}, {{"alpha", alpha}})};
}

// x + bias + skip.
StatusOr<Results> decompose_bias_add(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  return Results{s.add(s.add(s.operand(0), s.operand(1)), s.operand(2))};
}

// The first half times Gelu of the second.
StatusOr<Results> decompose_bias_split_gelu(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  Value* sum = s.add(s.operand(0), s.operand(1));
  const auto dims = static_dims(sum);
  if (!dims || dims->empty() || dims->back() % 2 != 0) return Results{};
  const std::int64_t half = dims->back() / 2;
  return Results{s.mul(s.slice(sum, -1, 0, half), s.gelu(s.slice(sum, -1, half, 2 * half), false))};
}

StatusOr<Results> decompose_skip_norm(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const bool simplified = node.op_type() == "SkipSimplifiedLayerNormalization";
  if (node.result(1) != nullptr && node.result(1)->has_uses() && simplified) return Results{};
  Value* sum = s.add(s.add(s.operand(0), s.operand(1)), s.operand(simplified ? 3 : 4));
  if (simplified) {
    Value* y = s.op("RMSNormalization", {sum, s.operand(2)},
                    {{"epsilon", node.float_attribute("epsilon", 1e-12F)}});
    return Results{y, nullptr, nullptr, sum};
  }
  const Node* norm = s.layer_norm(sum, s.operand(2), s.operand(3), 3);
  return Results{norm->result(0), norm->result(1), norm->result(2), sum};
}

StatusOr<Results> decompose_simplified_norm(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  if (node.result(1) != nullptr && node.result(1)->has_uses())
    return decompose_norm_with_root(builder, node);
  return Results{s.op("RMSNormalization", {s.operand(0), s.operand(1)},
                      {{"axis", node.int_attribute("axis", -1)},
                       {"epsilon", node.float_attribute("epsilon", 1e-5F)}})};
}

// Word, position and segment embeddings, summed and normalised; the mask's lengths.
StatusOr<Results> decompose_embed_norm(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const auto ids = static_dims(s.operand(0));
  if (!ids || ids->size() != 2) return Results{};
  const auto gather = [&](Value* table, Value* rows) {
    return s.op("Gather", {table, rows}, {{"axis", std::int64_t{0}}});
  };
  Value* sum = gather(s.operand(2), s.operand(0));
  Value* positions = node.operand(8);
  sum = s.add(sum, positions != nullptr ? gather(s.operand(3), positions)
                                        : s.slice(s.operand(3), 0, 0, (*ids)[1]));
  if (s.operand(1) != nullptr && s.operand(4) != nullptr) {
    sum = s.add(sum, gather(s.operand(4), s.operand(1)));
  }
  const Node* norm = s.layer_norm(sum, s.operand(5), s.operand(6), 1);
  Results results = {norm->result(0), nullptr, sum};
  if (node.result(1) != nullptr) {
    results[1] = node.operand(7) != nullptr
                     ? s.op("ReduceSum", {node.operand(7), builder.ints({1})},
                            {{"keepdims", std::int64_t{0}}})
                     : s.op("Expand", {s.number(DType::kInt32, 0.0), builder.ints({(*ids)[0]})});
  }
  return results;
}

// Softmax of x + bias over the dimensions from `axis` on.
StatusOr<Results> decompose_bias_softmax(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const auto rank = rank_of(s.operand(0));
  std::int64_t axis = node.int_attribute("axis", 1);
  if (!rank) return Results{};
  if (axis < 0) axis += *rank;
  // Inner broadcasting repeats the bias along the batches before the axis, as numpy does.
  if (axis != *rank - 1 || node.int_attribute("is_inner_broadcast", 1) == 0) return Results{};
  return Results{
      s.op("Softmax", {s.add(s.operand(0), s.operand(1))}, {{"axis", std::int64_t{-1}}})};
}

// Channels last: x[N, H, W, C] by default, of `groups` groups; activation 1 is x sigmoid(x).
StatusOr<Results> decompose_group_norm(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const bool skips = node.op_type() == "SkipGroupNorm";
  const bool channels_last = node.int_attribute("channels_last", 1) != 0;
  const auto rank = rank_of(s.operand(0));
  if (rank != 4) return Results{};
  Value* sum = s.operand(0);
  if (skips) {
    Value* skip = s.operand(3);
    if (rank_of(skip) == 2) skip = s.unsqueeze(skip, {1, 2});
    sum = s.add(s.add(sum, skip), s.operand(4));
  }
  Value* x = channels_last ? s.transpose(sum, {0, 3, 1, 2}) : sum;
  Value* y = s.op("GroupNormalization",
                  {x, s.cast(s.operand(1), s.dtype()), s.cast(s.operand(2), s.dtype())},
                  {{"num_groups", node.int_attribute("groups", 1)},
                   {"epsilon", node.float_attribute("epsilon", 1e-5F)}});
  if (node.int_attribute("activation", 0) == 1) y = s.mul(y, s.op("Sigmoid", {y}));
  if (channels_last) y = s.transpose(y, {0, 2, 3, 1});
  return skips ? Results{y, sum} : Results{y};
}

// Unsqueeze with an int32 axis.
StatusOr<Results> decompose_expand_dims(Builder& builder, const Node& node) {
  const auto axis = constant_ints(node.operand(1));
  if (!axis || axis->size() != 1) return Results{};
  return Results{Sketch(builder, node).unsqueeze(node.operand(0), *axis)};
}

// An operator of ONNX's under another name or domain.
template <const char* kName>
StatusOr<Results> decompose_renamed(Builder& builder, const Node& node) {
  std::vector<Builder::NamedValue> attributes;
  for (const Attribute& attribute : node.attributes()) {
    attributes.emplace_back(attribute.name, attribute.value);
  }
  return Results{builder.op(kName, node.operands(), attributes)};
}
constexpr char kTrilu[] = "Trilu";
constexpr char kGatherNd[] = "GatherND";
constexpr char kGather[] = "Gather";

struct Entry {
  std::string_view op;
  DecompositionRule rule;
};

constexpr Entry kRules[] = {
    {"Attention", decompose_contrib_attention},
    {"BiasAdd", decompose_bias_add},
    {"BiasGelu", decompose_bias_gelu},
    {"BiasSoftmax", decompose_bias_softmax},
    {"BiasSplitGelu", decompose_bias_split_gelu},
    {"DynamicQuantizeMatMul", decompose_dynamic_product},
    {"EmbedLayerNormalization", decompose_embed_norm},
    {"ExpandDims", decompose_expand_dims},
    {"FastGelu", decompose_bias_gelu},
    {"FusedConv", decompose_fused_conv},
    {"FusedGemm", decompose_fused_gemm},
    {"FusedMatMul", decompose_fused_matmul},
    {"FusedMatMulActivation", decompose_fused_matmul},
    {"GatherND", decompose_renamed<kGatherNd>},
    {"Gelu", decompose_gelu},
    {"GemmFastGelu", decompose_gemm_fast_gelu},
    {"GroupNorm", decompose_group_norm},
    {"MatMulIntegerToFloat", decompose_integer_product},
    {"MatMulNBits", decompose_matmul_n_bits},
    {"MultiHeadAttention", decompose_multi_head_attention},
    {"QGemm", decompose_quantized_gemm},
    {"QLinearAdd", decompose_quantized},
    {"QLinearAveragePool", decompose_quantized},
    {"QLinearConcat", decompose_quantized},
    {"QLinearGlobalAveragePool", decompose_quantized},
    {"QLinearLeakyRelu", decompose_quantized},
    {"QLinearMul", decompose_quantized},
    {"QLinearReduceMean", decompose_quantized},
    {"QLinearSigmoid", decompose_quantized},
    {"QLinearSoftmax", decompose_quantized},
    {"QuickGelu", decompose_quick_gelu},
    {"RotaryEmbedding", decompose_contrib_rotary},
    {"SimplifiedLayerNormalization", decompose_simplified_norm},
    {"SkipGroupNorm", decompose_group_norm},
    {"SkipLayerNormalization", decompose_skip_norm},
    {"SkipSimplifiedLayerNormalization", decompose_skip_norm},
    {"TorchEmbedding", decompose_renamed<kGather>},
    {"TransposeMatMul", decompose_fused_matmul},
    {"Trilu", decompose_renamed<kTrilu>},
};

}  // namespace

Value* Sketch::activation(Value* x, const std::string& name,
                          const std::vector<float>& parameters) const {
  const auto parameter = [&](std::size_t i, float fallback) {
    return i < parameters.size() ? parameters[i] : fallback;
  };
  if (name.empty()) return x;
  if (name == "Relu" || name == "Tanh" || name == "Sigmoid" || name == "HardSwish") {
    return op(name, {x});
  }
  if (name == "LeakyRelu") return op(name, {x}, {{"alpha", parameter(0, 0.01F)}});
  if (name == "HardSigmoid") {
    return op(name, {x}, {{"alpha", parameter(0, 0.2F)}, {"beta", parameter(1, 0.5F)}});
  }
  if (name == "Clip") {
    return op(name, {x, number(x->dtype(), parameter(0, -3.4028235e38F)),
                     number(x->dtype(), parameter(1, 3.4028235e38F))});
  }
  if (name == "Gelu") return gelu(x, false);
  return nullptr;
}

DecompositionRule contrib_rule(std::string_view op) {
  for (const Entry& entry : kRules) {
    if (entry.op == op) return entry.rule;
  }
  return nullptr;
}

}  // namespace mezzo
