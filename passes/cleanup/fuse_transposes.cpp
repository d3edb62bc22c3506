// Of Transposes that only exchange the last two dimensions:
//
// 1. A contraction with operand Transpose(x) reads x and flips its flag for that operand.
// 2. The Transpose of a product that nothing else reads is the product of the other operand's
//    transpose with this one's: (A B)^T = B^T A^T. The gradient of a weight that was read
//    transposed comes so.

#include "passes/cleanup/fuse_transposes.h"

#include <algorithm>
#include <numeric>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "passes/cleanup/match.h"

namespace mezzo::passes {
namespace {

bool exchanges_last_two(const Node& node) {
  if (!node.is("Transpose") || node.operand(0) == nullptr || !node.operand(0)->type.is_tensor())
    return false;
  const auto rank = node.operand(0)->tensor_type().rank();
  if (!rank || *rank < 2) return false;
  std::vector<std::int64_t> expected(*rank);
  std::iota(expected.begin(), expected.end(), 0);
  std::vector<std::int64_t> reversed(expected.rbegin(), expected.rend());
  std::swap(expected[*rank - 1], expected[*rank - 2]);
  return node.ints_attribute("perm", reversed) == expected;
}

// The flag's name for an operand of this contraction; "" if it has none.
std::string_view flag_of(const Node& node, std::size_t operand) {
  if (operand > 1) return {};
  if (node.is("Gemm")) return operand == 0 ? "transA" : "transB";
  if (node.is("MatMul") || node.is("MatMulT", kMezzoDomain))
    return operand == 0 ? "trans_a" : "trans_b";
  return {};
}

// The product whose result alone this Transpose turns, if it can be turned itself.
Node* turned_product(const Node& transpose) {
  Node* product = transpose.operand(0)->producer();
  if (product == nullptr || product->graph() != transpose.graph() ||
      (!product->is("MatMul") && !product->is("MatMulT", kMezzoDomain)) ||
      !has_one_reader(*transpose.operand(0))) {
    return nullptr;
  }
  const auto a = product->operand(0)->tensor_type().rank(),
             b = product->operand(1)->tensor_type().rank();
  return a && b && *a == *b ? product : nullptr;
}

// Makes the Transpose the product.
Status turn(const Model& model, Graph& graph, Node* transpose, Node* product) {
  Builder builder(graph, type_inference(model), transpose);
  builder.set_scope(product->name.empty() ? product->result()->name() : product->name);
  std::vector<Builder::NamedValue> attributes;
  if (product->int_attribute("trans_b", 0) == 0)
    attributes.emplace_back("trans_a", std::int64_t{1});
  if (product->int_attribute("trans_a", 0) == 0)
    attributes.emplace_back("trans_b", std::int64_t{1});
  const float alpha = product->float_attribute("alpha", 1.0F);
  if (alpha != 1.0F) attributes.emplace_back("alpha", alpha);
  Value* y = builder.mezzo_op("MatMulT", {product->operand(1), product->operand(0)},
                              std::move(attributes));
  MEZZO_RETURN_IF_ERROR(builder.status());
  y->producer()->name = product->name;
  y->type = transpose->result()->type;
  graph.replace_uses(transpose->result(), y);
  graph.erase(transpose);
  graph.erase(product);
  return ok_status();
}

// MatMulT wants equal ranks of at least 2, or a matrix on the right, which MatMul need not have.
bool fits(const Node& node) {
  if (!node.is("MatMul")) return true;
  const auto a = node.operand(0)->tensor_type().rank(), b = node.operand(1)->tensor_type().rank();
  return a && b && *a >= 2 && (*a == *b || *b == 2);
}

}  // namespace

StatusOr<bool> fuse_transposes(Model& model, PassContext& ctx) {
  Graph& graph = *model.graph;
  bool changed = false;
  // Backwards: what reads a Transpose of a Transpose reads the first one next.
  const std::vector<Node*> nodes = graph.node_list();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    Node* transpose = *node;
    if (!exchanges_last_two(*transpose) || transpose->result()->is_graph_output()) continue;
    const std::vector<Use> uses = transpose->result()->uses();
    for (const Use& use : uses) {
      const std::string_view flag = flag_of(*use.node, use.operand);
      if (flag.empty() || use.node->graph() != &graph || !fits(*use.node)) continue;
      if (use.node->is("MatMul")) graph.change_op(use.node, "MatMulT", kMezzoDomain);
      use.node->set_attribute(flag, std::int64_t{use.node->int_attribute(flag, 0) == 0});
      use.node->set_operand(use.operand, transpose->operand(0));
      ctx.stats.add("transposes-fused", 1);
      changed = true;
    }
    if (!transpose->result()->has_uses()) {
      graph.erase(transpose);
      changed = true;
    }
  }
  // Forwards, so that a product behind another's Transpose is seen as it is by then.
  for (Node* transpose : graph.node_list()) {
    if (!exchanges_last_two(*transpose)) continue;
    Node* product = turned_product(*transpose);
    if (product == nullptr) continue;
    MEZZO_RETURN_IF_ERROR(turn(model, graph, transpose, product));
    ctx.stats.add("transposes-fused", 1);
    changed = true;
  }
  return changed;
}

}  // namespace mezzo::passes
