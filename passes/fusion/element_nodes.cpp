#include "passes/fusion/element_nodes.h"

#include <cstdint>
#include <variant>

#include "compiler/ops/op_def.h"
#include "kernels/element_program.h"

namespace mezzo::passes {
namespace {

// The kernel's attributes, of which element programs take numbers and strings.
kernels::Attributes attributes_of(const LoweredOp& lowered) {
  kernels::Attributes attributes;
  for (const Attribute& attribute : lowered.attributes) {
    switch (attribute.kind()) {
      case Attribute::Kind::kFloat:
        attributes.set(attribute.name, static_cast<double>(std::get<float>(attribute.value)));
        break;
      case Attribute::Kind::kInt:
        attributes.set(attribute.name, std::get<std::int64_t>(attribute.value));
        break;
      case Attribute::Kind::kString:
        attributes.set(attribute.name, std::get<std::string>(attribute.value));
        break;
      default: break;
    }
  }
  return attributes;
}

// The word for a cast's target in a program; nullopt: no program has it. "": nothing to do, as
// programs compute in float32.
std::optional<std::string> cast_word(const Node& node) {
  const Value* from = node.operand(0);
  if (from == nullptr || from->is_initializer()) return std::nullopt;  // low copies of parameters
  const DType source = from->dtype(), target = node.result()->dtype();
  const bool exact = is_number(source) || source == DType::kBool || source == DType::kInt8 ||
                     source == DType::kUInt8 || source == DType::kInt16 || source == DType::kUInt16;
  if (target == DType::kFloat32) {
    const bool rounds_once = source == DType::kInt32 || source == DType::kInt64;
    return exact || rounds_once ? std::optional<std::string>("") : std::nullopt;
  }
  if (!exact) return std::nullopt;
  if (is_low(target)) {
    if (source == target) return "";
    return target == DType::kFloat16 ? "float16" : "bfloat16";
  }
  if (target == DType::kBool) return "bool";
  return std::nullopt;
}

// Does the operand have a type that the operator's float32 program may read?
bool may_read(const Element& element, std::size_t operand) {
  const Value* value = element.operands[operand];
  if (value == nullptr) return true;
  if (!value->type.is_tensor() || !value->tensor_type().has_static_shape()) return false;
  if (element.op == "Cast") return true;  // cast_word() has looked
  const bool is_truth =
      (element.op == "Where" && operand == 0) || (element.op == "DropoutGrad" && operand == 1);
  if (is_truth) return value->dtype() == DType::kBool;
  return is_number(value->dtype());
}

}  // namespace

bool is_number(DType dtype) { return dtype == DType::kFloat32 || is_low(dtype); }

std::optional<Element> read_element(const Node& node) {
  if (node.results().size() != 1 || node.result() == nullptr || node.operand_count() == 0 ||
      !node.result()->type.is_tensor() || !node.result()->tensor_type().has_static_shape())
    return std::nullopt;
  const DType result = node.result()->dtype();
  if (!is_number(result) && result != DType::kBool) return std::nullopt;
  const OpDef* def = find_op(node);
  if (def == nullptr || !def->no_kernel.empty()) return std::nullopt;
  StatusOr<LoweredOp> lowered = lower(node);
  if (!lowered.ok() || lowered->alias) return std::nullopt;
  Element element{lowered->kernel, attributes_of(*lowered), lowered->operands};
  if (element.op == "Cast") {
    const auto word = cast_word(node);
    if (!word) return std::nullopt;
    element.attributes = {};
    element.attributes.set("to", *word);
  } else if (element.op != "Clip" && element.op != "ClipGrad" && element.op != "AddN" &&
             element.op != "Sum" && element.op != "Mean") {
    const auto operation = kernels::element_operation(element.op, element.attributes);
    if (!operation.ok() || !may_be_fused(operation->op)) return std::nullopt;
  }
  for (std::size_t i = 0; i < element.operands.size(); ++i) {
    const bool optional = element.op.starts_with("Clip") && i > 0;
    if (element.operands[i] == nullptr ? !optional : !may_read(element, i)) return std::nullopt;
  }
  return element;
}

}  // namespace mezzo::passes
