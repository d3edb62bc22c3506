// For a contraction with operand Transpose(x):
//
// - if the permutation only exchanges the last two dimensions, the contraction reads x and flips
// its
//   flag for that operand.

#include "passes/cleanup/fuse_transposes.h"

#include <algorithm>
#include <numeric>

#include "compiler/ir/builder.h"

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
  return changed;
}

}  // namespace mezzo::passes
