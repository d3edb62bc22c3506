#include "passes/fusion/product.h"

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "passes/cleanup/match.h"

namespace mezzo::passes {
namespace {

using Dims = std::vector<std::int64_t>;

bool is_one_float_type(const Product& product) {
  return is_floating(product.a->dtype()) && product.a->dtype() == product.b->dtype();
}

// Flags, alpha and addend; false where the node is no product, or one with another addend.
bool read_form(const Node& node, Product& product) {
  product.a = node.operand(0);
  product.b = node.operand(1);
  if (product.a == nullptr || product.b == nullptr || node.result() == nullptr) return false;
  if (node.is("MatMul")) return true;
  const bool is_gemm = node.is("Gemm");
  if (!is_gemm && !node.is("MatMulT", kMezzoDomain)) return false;
  product.trans_a = node.int_attribute(is_gemm ? "transA" : "trans_a", 0) != 0;
  product.trans_b = node.int_attribute(is_gemm ? "transB" : "trans_b", 0) != 0;
  product.alpha = node.float_attribute("alpha", 1.0F);
  if (!is_gemm || node.operand(2) == nullptr) return true;
  product.bias = node.operand(2);
  return node.float_attribute("beta", 1.0F) == 1.0F;
}

}  // namespace

std::optional<Product> read_product(Node& node) {
  Product product;
  product.node = &node;
  if (!read_form(node, product) || !is_one_float_type(product)) return std::nullopt;
  const auto a = static_dims(product.a), b = static_dims(product.b), y = static_dims(node.result());
  if (!a || !b || !y || a->size() < 2 || (b->size() != 2 && b->size() != a->size()))
    return std::nullopt;
  const std::int64_t depth = product.trans_a ? a->end()[-2] : a->back();
  if (node.result()->tensor_type().elems() == 0 || depth == 0) return std::nullopt;
  product.y = *y;
  product.is_flat = b->size() == 2 && (a->size() == 2 || !product.trans_a);
  if (product.bias != nullptr) {
    const auto c = static_dims(product.bias);
    if (!c || *c != Dims{product.columns()}) return std::nullopt;
  }
  return product;
}

bool library_multiplies(DType operands, DType result) {
  if (operands == DType::kFloat64) return false;
  return operands == result || (is_low(operands) && result == DType::kFloat32);
}

}  // namespace mezzo::passes
