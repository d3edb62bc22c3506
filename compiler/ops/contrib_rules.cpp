#include "compiler/ops/contrib_rules.h"

#include <string>

#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

bool has_batch_transpose(const Node& node) {
  return node.int_attribute("transBatchA", 0) != 0 || node.int_attribute("transBatchB", 0) != 0;
}

}  // namespace

// With equal ranks and without transBatch it is our MatMulT.
Status infer_fused_matmul(Node& node) {
  const Value* a = node.operand(0);
  const Value* b = node.operand(1);
  if (a == nullptr || b == nullptr || !a->type.is_tensor() || !b->type.is_tensor())
    return ok_status();
  const auto rank = a->tensor_type().rank();
  if (has_batch_transpose(node) || !rank || *rank < 2 || rank != b->tensor_type().rank()) {
    return infer_dtype_of_operand0(node);
  }
  return infer_product(node, node.int_attribute("transA", 0) != 0,
                       node.int_attribute("transB", 0) != 0);
}

Status lower_fused_matmul(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t a_rank, known_rank(node, *node.operand(0)));
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t b_rank, known_rank(node, *node.operand(1)));
  if (has_batch_transpose(node) || a_rank != b_rank || a_rank < 2) {
    return unimplemented(describe(node) +
                         ": the kernel takes operands of equal rank, without transBatch");
  }
  lowered.kernel = "MatMulT";
  lowered.attributes.clear();
  set_attribute(lowered, "trans_a", node.int_attribute("transA", 0));
  set_attribute(lowered, "trans_b", node.int_attribute("transB", 0));
  set_attribute(lowered, "alpha", node.float_attribute("alpha", 1.0F));
  return ok_status();
}

Status lower_contrib_gelu(const Node&, LoweredOp& lowered) {
  lowered.kernel = "Gelu";
  lowered.attributes.clear();
  return ok_status();
}

Status lower_fast_gelu(const Node& node, LoweredOp& lowered) {
  if (node.operand(1) != nullptr) {
    return unimplemented(describe(node) + ": the runtime's Gelu takes no bias");
  }
  lowered.kernel = "Gelu";
  lowered.attributes.clear();
  set_attribute(lowered, "approximate", std::string("tanh"));
  return ok_status();
}

// x sigmoid(alpha x).
Status lower_quick_gelu(const Node& node, LoweredOp& lowered) {
  lowered.kernel = "Swish";
  lowered.attributes.clear();
  set_attribute(lowered, "alpha", node.float_attribute("alpha", 1.702F));
  return ok_status();
}

}  // namespace mezzo
