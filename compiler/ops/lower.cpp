// From a node to what the runtime executes.
#include <string>

#include "compiler/ops/lowering_helpers.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"
#include "compiler/support/text.h"

namespace mezzo {
namespace {

bool is_kernel_attribute(const Attribute& attribute) {
  switch (attribute.kind()) {
    case Attribute::Kind::kFloat:
    case Attribute::Kind::kInt:
    case Attribute::Kind::kString:
    case Attribute::Kind::kInts:
    case Attribute::Kind::kFloats: return true;
    default: return false;
  }
}

// The library's inference lets a constant shape pass that has more or fewer elements than there
// are.
Status check_alias(const Node& node, const LoweredOp& lowered) {
  const Value* from = lowered.operands.at(0);
  const Value* to = node.result();
  const auto is_static = [](const Value* value) {
    return value != nullptr && value->type.is_tensor() && value->tensor_type().has_static_shape();
  };
  if (!is_static(from) || !is_static(to) ||
      from->tensor_type().elems() == to->tensor_type().elems())
    return ok_status();
  return invalid_argument(describe(node) + ", operand 0 '" + printable(from->name()) +
                          "': expected " + std::to_string(to->tensor_type().elems()) +
                          " elements for the result " + to_string(to->type) + ", got " +
                          std::to_string(from->tensor_type().elems()) + " in " +
                          to_string(from->type));
}

}  // namespace

StatusOr<LoweredOp> lower(const Node& node) {
  const OpDef* op = find_op(node);
  if (op == nullptr) {
    return unimplemented(
        describe(node) + ": operator of domain '" +
        (node.domain().empty() ? "ai.onnx" : node.domain()) +
        "' is unknown to the runtime. Hint: see the operator list in kernels/README.md");
  }
  if (!op->no_kernel.empty()) {
    return unimplemented(describe(node) + ": " + std::string(op->no_kernel));
  }
  LoweredOp lowered;
  lowered.kernel = node.op_type();
  lowered.operands = node.operands();
  for (const Attribute& attribute : node.attributes()) {
    if (is_kernel_attribute(attribute)) lowered.attributes.push_back(attribute);
  }
  if (op->lower != kLowerAsIs) {
    if (needs_first_operand(node)) MEZZO_RETURN_IF_ERROR(require_operand(node, 0));
    if (needs_first_result(node)) MEZZO_RETURN_IF_ERROR(require_result(node, 0));
    MEZZO_RETURN_IF_ERROR(op->lower(node, lowered));
  }
  if (lowered.alias) MEZZO_RETURN_IF_ERROR(check_alias(node, lowered));
  return lowered;
}

}  // namespace mezzo
