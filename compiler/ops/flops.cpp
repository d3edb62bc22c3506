// Floating-point operations of a node, for the cost models. Contractions are counted exactly
// (2 per multiply-add); for the rest the number per element is a rough count of the operations a
// vectorised kernel needs, good enough where the time is that of memory anyway.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/ops/op_def.h"

namespace mezzo {
namespace {

double extent_of(const Dim& dim) {
  return static_cast<double>(dim.known() ? dim.value : kAssumedExtent);
}

// Product of dims as double, so that nothing overflows; nullopt if the rank is unknown.
std::optional<double> elems(const Value* value) {
  if (value == nullptr || !value->type.is_tensor() || !value->tensor_type().shape)
    return std::nullopt;
  double product = 1.0;
  for (const Dim& dim : *value->tensor_type().shape) product *= extent_of(dim);
  return product;
}

// Dimension `index` of a value, from the end if negative.
std::optional<double> extent(const Value* value, int index) {
  if (value == nullptr || !value->type.is_tensor() || !value->tensor_type().shape)
    return std::nullopt;
  const auto& shape = *value->tensor_type().shape;
  const int rank = static_cast<int>(shape.size());
  const int at = index < 0 ? index + rank : index;
  if (at < 0 || at >= rank) return std::nullopt;
  return extent_of(shape[at]);
}

double product(std::optional<double> a, std::optional<double> b, double factor = 1.0) {
  return a && b ? *a * *b * factor : 0.0;
}

double matmul_flops(const Node& node, bool a_transposed) {
  const Value* a = node.operand(0);
  return product(elems(node.result()), extent(a, a_transposed ? -2 : -1), 2.0);
}

// Multiply-adds of a convolution: every element of the output side meets one filter,
// w[M, C/group, k..] without M.
double conv_flops(const Value* output_side, const Value* w) {
  const auto filters = extent(w, 0);
  const auto weights = elems(w);
  if (!filters || !weights || *filters == 0.0) return 0.0;
  return product(elems(output_side), *weights / *filters, 2.0);
}

// Every element of x[N, C, ..] meets w[C, M/group, k..] without C.
double conv_transpose_flops(const Node& node) {
  return conv_flops(node.operand(0), node.operand(1));
}

// seq x batch x directions x gates x hidden x (input + hidden).
double rnn_flops(const Node& node) {
  const auto steps = extent(node.operand(0), 0), batch = extent(node.operand(0), 1);
  const auto w = elems(node.operand(1)), r = elems(node.operand(2));
  if (!steps || !batch || !w || !r) return 0.0;
  return 2.0 * *steps * *batch * (*w + *r);
}

// Scores and weighted sum: two products, [S, D] x [D, L] and [S, L] x [L, D] per head.
double attention_flops(const Node& node) {
  const bool tokens_first = (node.int_attribute("tokens_first", 0) & 2) != 0;
  return product(elems(node.operand(0)), extent(node.operand(1), tokens_first ? -3 : -2), 4.0);
}

// Five products of that size: the scores again, dp, dq, dk and dv.
double attention_grad_flops(const Node& node) {
  const bool tokens_first = (node.int_attribute("tokens_first", 0) & 2) != 0;
  return product(elems(node.operand(1)), extent(node.operand(2), tokens_first ? -3 : -2), 10.0);
}

// Every combination of the labels' values is one multiply-add per operand beyond the first.
double einsum_flops(const Node& node) {
  const std::string equation = node.string_attribute("equation", "");
  std::map<char, double> extents;
  std::size_t at = 0;
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    int dim = 0;
    for (; at < equation.size() && equation[at] != ',' && equation[at] != '-'; ++at) {
      if (equation[at] == ' ') continue;
      const auto size = extent(node.operand(i), dim++);
      if (!size || equation[at] == '.')
        return 0.0;  // an ellipsis: labels do not name every dimension
      double& known = extents[equation[at]];
      known = std::max(known, *size);
    }
    ++at;
  }
  double combinations =
      node.operand_count() > 1 ? 2.0 * static_cast<double>(node.operand_count() - 1) : 1.0;
  for (const auto& [label, size] : extents) combinations *= size;
  return combinations;
}

std::optional<double> contraction_flops(const Node& node) {
  const std::string_view op = node.op_type();
  if (op == "MatMul" || op == "MatMulInteger") return matmul_flops(node, false);
  if (op == "MatMulT" || op == "MatMulActivation" || op == "MatMulActivationGrad" ||
      op == "MatMulSums")
    return matmul_flops(node, node.int_attribute("trans_a", 0) != 0);
  if (op == "Gemm" || op == "FusedMatMul")
    return matmul_flops(node, node.int_attribute("transA", 0) != 0);
  if (op == "Conv" || op == "ConvInteger") return conv_flops(node.result(), node.operand(1));
  if (op == "ConvGradInput") return conv_flops(node.operand(0), node.operand(1));
  if (op == "ConvGradWeight") return conv_flops(node.operand(0), node.result());
  if (op == "ConvTranspose") return conv_transpose_flops(node);
  if (op == "Attention" || op == "MultiHeadAttention" || op == "ScaledDotProductAttention")
    return attention_flops(node);
  if (op == "ScaledDotProductAttentionGrad") return attention_grad_flops(node);
  if (op == "Einsum") return einsum_flops(node);
  if (op == "RNN" || op == "LSTM" || op == "GRU") return rnn_flops(node);
  return std::nullopt;
}

struct PerElement {
  std::string_view op;
  double flops;
};

// Operations per element of the largest operand or result. Exponentials and the like count 10.
constexpr PerElement kPerElement[] = {
    {"BatchNormalization", 4},
    {"BatchNormalizationTrain", 8},
    {"BatchNormalizationGrad", 10},
    {"LayerNormalization", 8},
    {"LayerNormalizationGrad", 14},
    {"RMSNormalizationGrad", 10},
    {"RMSNormalization", 5},
    {"GroupNormalization", 8},
    {"InstanceNormalization", 8},
    {"Softmax", 14},
    {"LogSoftmax", 14},
    {"SoftmaxGrad", 4},
    {"LogSoftmaxGrad", 14},
    {"SoftmaxCrossEntropyLoss", 14},
    {"SoftmaxCrossEntropyLossTrain", 14},
    {"SoftmaxCrossEntropyLossGrad", 12},
    {"Exp", 10},
    {"Log", 10},
    {"Pow", 20},
    {"PowGrad", 20},
    {"Sigmoid", 12},
    {"Tanh", 14},
    {"Erf", 14},
    {"Gelu", 18},
    {"GeluGrad", 28},
    {"Swish", 13},
    {"SwishGrad", 16},
    {"Softplus", 20},
    {"SigmoidGrad", 3},
    {"TanhGrad", 3},
    {"Sin", 12},
    {"Cos", 12},
};

double per_element(std::string_view op) {
  for (const PerElement& entry : kPerElement) {
    if (entry.op == op) return entry.flops;
  }
  return 1.0;
}

double largest(const Node& node) {
  double most = 0.0;
  for (std::size_t i = 0; i < node.operand_count(); ++i)
    most = std::max(most, elems(node.operand(i)).value_or(0.0));
  for (const Value* result : node.results()) most = std::max(most, elems(result).value_or(0.0));
  return most;
}

// Pools visit every element of every window.
std::optional<double> pool_flops(const Node& node) {
  if (!node.is("MaxPool") && !node.is("AveragePool") && !node.is("LpPool")) return std::nullopt;
  double window = 1.0;
  for (const std::int64_t size : node.ints_attribute("kernel_shape"))
    window *= static_cast<double>(size);
  return elems(node.result()).value_or(0.0) * window;
}

}  // namespace

double flops(const Node& node) {
  const OpDef* op = find_op(node);
  if (op == nullptr || op->precision == PrecisionCategory::kClear) return 0.0;
  if (const auto count = contraction_flops(node)) return *count;
  if (const auto count = pool_flops(node)) return *count;
  if (node.results().empty() || node.result() == nullptr || !is_floating(node.result()->dtype()))
    return 0.0;
  return largest(node) * per_element(node.op_type());
}

}  // namespace mezzo
