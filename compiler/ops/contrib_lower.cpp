// Lowering of the operators of com.microsoft that the runtime executes.
#include <string>

#include "compiler/ops/contrib_rules.h"
#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

bool has_batch_transpose(const Node& node) {
  return node.int_attribute("transBatchA", 0) != 0 || node.int_attribute("transBatchB", 0) != 0;
}

}  // namespace

Status lower_fused_matmul(const Node& node, LoweredOp& lowered) {
  MEZZO_RETURN_IF_ERROR(require_operand(node, 1));
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
