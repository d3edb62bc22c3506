// From a node to what the runtime executes.
#include <string>

#include "compiler/ops/op_def.h"

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
  if (op->lower != kLowerAsIs) MEZZO_RETURN_IF_ERROR(op->lower(node, lowered));
  return lowered;
}

}  // namespace mezzo
