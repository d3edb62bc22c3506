#include "passes/precision/slots.h"

#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"

namespace mezzo::passes {
namespace {

bool is_fp32(const Value* value) { return value != nullptr && value->dtype() == DType::kFloat32; }

bool flagged(std::uint32_t bits, std::size_t index) {
  return index < 32 && ((bits >> index) & 1U) != 0;
}

// Sequences and optionals carry their element type out of sight, and an unknown type may be any:
// such operands and results stay as they are, and with them all that shares their type.
const Value* untouchable(const Node& node) {
  for (const auto& values : {node.operands(), node.results()}) {
    for (const Value* value : values) {
      if (value != nullptr && value->dtype() == DType::kNone) return value;
    }
  }
  return nullptr;
}

// The type variable that the heavy data has: that of the first FP32 operand, else result.
std::string_view primary_variable(const Node& node, std::int64_t opset) {
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    if (is_fp32(node.operand(i))) return operand_type_variable(node, i, opset);
  }
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    if (is_fp32(node.result(i))) return result_type_variable(node, i, opset);
  }
  return {};
}

LowSlots slots_by_catalogue(const Node& node, const OpDef& def) {
  LowSlots slots;
  slots.possible = true;
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    slots.operands.push_back(is_fp32(node.operand(i)) && !flagged(def.fp32_operands, i));
  }
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    slots.results.push_back(is_fp32(node.result(i)) && !flagged(def.fp32_results, i));
  }
  return slots;
}

LowSlots slots_by_schema(const Node& node, const OpDef& def, DType low, std::int64_t opset) {
  LowSlots slots;
  if (const Value* value = untouchable(node)) {
    slots.why_not = "schema: the type of '" + value->name() + "' is tied or unknown";
    return slots;
  }
  const std::string_view primary = primary_variable(node, opset);
  const auto refuse = [&] {
    slots.why_not = "schema: " + node.op_type() + " takes no " + std::string(dtype_name(low)) +
                    " at opset " + std::to_string(opset);
    return slots;
  };
  // A result or operand of the primary variable is always low; others as the schema and catalogue
  // say.
  const auto is_slot_low = [&](std::string_view variable, bool wants_fp32,
                               std::optional<bool> accepts) {
    if (!variable.empty() && variable == primary) return true;
    return !wants_fp32 && accepts.value_or(false);
  };
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    const auto accepts = operand_accepts(node, i, low, opset);
    const std::string_view variable = operand_type_variable(node, i, opset);
    const bool slot =
        is_fp32(node.operand(i)) && is_slot_low(variable, flagged(def.fp32_operands, i), accepts);
    if (slot && !accepts.value_or(false)) return refuse();
    slots.operands.push_back(slot);
  }
  const bool any_operand =
      std::find(slots.operands.begin(), slots.operands.end(), true) != slots.operands.end();
  bool any_result = false;
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    const auto accepts = result_accepts(node, i, low, opset);
    const std::string_view variable = result_type_variable(node, i, opset);
    const bool slot =
        is_fp32(node.result(i)) && is_slot_low(variable, flagged(def.fp32_results, i), accepts);
    if (slot && !accepts.value_or(false)) return refuse();
    slots.results.push_back(slot);
    any_result = any_result || slot;
  }
  // A result type that no operand gives stands in an attribute, which only Cast's `to` follows.
  const bool from_attribute = any_result && !any_operand && !node.is("Cast");
  if (from_attribute) slots.why_not = "schema: " + node.op_type() + " makes its own type";
  if (!any_operand && !any_result) refuse();
  slots.possible = (any_operand || any_result) && !from_attribute;
  return slots;
}

}  // namespace

LowSlots low_slots(const Node& node, const PassContext& ctx, std::int64_t opset) {
  const OpDef* def = find_op(node);
  if (def == nullptr) return {false, "unknown operator", {}, {}};
  if (ctx.for_runtime) return slots_by_catalogue(node, *def);
  if (!has_schema(node.op_type(), node.domain(), opset))
    return {false, "no schema for this operator", {}, {}};
  return slots_by_schema(node, *def, ctx.policy.low, opset);
}

}  // namespace mezzo::passes
