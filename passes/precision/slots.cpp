#include "passes/precision/slots.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"

namespace mezzo::passes {
namespace {

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

// An operand or result, as the schema and the catalogue see it.
struct Slot {
  bool is_fp32 = false;
  bool wants_fp32 = false;    // by the catalogue
  bool accepts = false;       // the low type, by the schema
  std::string_view variable;  // equal for all that share a type; "" for a type of its own
};

struct SchemaSlots {
  std::vector<Slot> operands, results;

  SchemaSlots(const Node& node, const OpDef& def, DType low, std::int64_t opset) {
    for (std::size_t i = 0; i < node.operand_count(); ++i) {
      operands.push_back({is_fp32(node.operand(i)), flagged(def.fp32_operands, i),
                          operand_accepts(node, i, low, opset).value_or(false),
                          operand_type_variable(node, i, opset)});
    }
    for (std::size_t i = 0; i < node.results().size(); ++i) {
      results.push_back({is_fp32(node.result(i)), flagged(def.fp32_results, i),
                         result_accepts(node, i, low, opset).value_or(false),
                         result_type_variable(node, i, opset)});
    }
  }

  // What shares a type turns low together: if any of it may leave FP32, all of it follows, unless
  // the schema does not let it.
  bool turns_low(std::string_view variable) const {
    bool any_may_leave = false, all_accept = true;
    for (const auto* slots : {&operands, &results}) {
      for (const Slot& slot : *slots) {
        if (!slot.is_fp32 || slot.variable != variable) continue;
        any_may_leave = any_may_leave || !slot.wants_fp32;
        all_accept = all_accept && slot.accepts;
      }
    }
    return any_may_leave && all_accept;
  }
};

// ConstantOfShape's fill must stay what it is, but for rounding.
bool fill_fits(const Node& node, DType low) {
  const Attribute* attribute = node.attribute("value");
  const auto* named = attribute == nullptr ? nullptr : std::get_if<NamedTensor>(&attribute->value);
  if (named == nullptr || !named->tensor) return true;  // zeros
  const FloatFacts facts = float_facts(low);
  for (const double element : named->tensor->to_doubles()) {
    const double magnitude = std::fabs(element);
    if (std::isfinite(element) && element != 0 &&
        (magnitude > facts.max || magnitude < facts.min_normal))
      return false;
  }
  return true;
}

// Does an attribute say what the node gives? It can follow in Cast, which takes every type, and in
// ConstantOfShape. The generators (EyeLike, RandomUniform, HannWindow, ...) stay: runtimes fall
// back on their FP32 kernels for operands, but not for a type in an attribute.
bool names_own_type(const Node& node, std::int64_t opset) {
  const TypeAttribute type = type_attribute(node, opset);
  if (type.name.empty() || node.is("Cast")) return false;
  return node.has_attribute(type.name) ? node.int_attribute(type.name, 0) != 0
                                       : type.fallback != DType::kNone;
}

// Why the node cannot give low results; "" where it can.
std::string fixed_results(const Node& node, bool any_operand, DType low, std::int64_t opset) {
  if (node.is("ConstantOfShape")) {
    return fill_fits(node, low) ? "" : "schema: its fill is beyond " + std::string(dtype_name(low));
  }
  const bool told = node.is("Cast") || (any_operand && !names_own_type(node, opset));
  return told ? "" : "schema: " + node.op_type() + " makes its own type";
}

LowSlots slots_by_schema(const Node& node, const OpDef& def, DType low, std::int64_t opset) {
  LowSlots slots;
  if (const Value* value = untouchable(node)) {
    slots.why_not = "schema: the type of '" + value->name() + "' is tied or unknown";
    return slots;
  }
  if (node.is("BitCast")) {
    slots.why_not = "schema: the bits of another type mean something else";
    return slots;
  }
  const SchemaSlots schema(node, def, low, opset);
  const std::string_view primary = primary_variable(node, opset);
  const auto wants_low = [&](const Slot& slot) {
    if (!slot.is_fp32) return false;
    if (slot.variable.empty()) return !slot.wants_fp32 && slot.accepts;
    return slot.variable == primary || schema.turns_low(slot.variable);
  };
  const auto accepted = [&](const Slot& slot) { return !wants_low(slot) || slot.accepts; };
  const bool all_accepted = std::ranges::all_of(schema.operands, accepted) &&
                            std::ranges::all_of(schema.results, accepted);
  const bool any_operand = std::ranges::any_of(schema.operands, wants_low);
  const bool any_result = std::ranges::any_of(schema.results, wants_low);
  if (!all_accepted || (!any_operand && !any_result)) {
    slots.why_not = "schema: " + node.op_type() + " takes no " + std::string(dtype_name(low)) +
                    " at opset " + std::to_string(opset);
    return slots;
  }
  if (any_result) slots.why_not = fixed_results(node, any_operand, low, opset);
  if (!slots.why_not.empty()) return slots;
  for (const Slot& slot : schema.operands) slots.operands.push_back(wants_low(slot));
  for (const Slot& slot : schema.results) slots.results.push_back(wants_low(slot));
  const std::string fault = function_body_fault(node, slots.operands, slots.results, low, opset);
  if (!fault.empty())
    slots.why_not = "schema: the function that defines " + node.op_type() + " takes no " +
                    std::string(dtype_name(low)) + " at opset " + std::to_string(opset) + ": " +
                    fault;
  slots.possible = fault.empty();
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
