#include "compiler/ops/signal_rules.h"

#include <string>

#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

// The single integer given by attribute or by a constant operand; nothing if it is left out.
StatusOr<std::optional<std::int64_t>> int_of(const Node& node, std::string_view name,
                                             std::size_t operand) {
  MEZZO_ASSIGN_OR_RETURN(const auto values, ints_of(node, name, operand));
  if (!values) return std::optional<std::int64_t>();
  if (values->size() == 1) return std::optional<std::int64_t>((*values)[0]);
  return invalid_argument(describe(node) + ", operand " + std::to_string(operand) + ": " +
                          std::string(name) + ": expected one number, got " +
                          std::to_string(values->size()));
}

}  // namespace

// axis is an attribute until opset 19, then operand 2 (raise-to-current writes the older default
// down, which differs).
Status lower_dft(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const auto length, int_of(node, "dft_length", 1));
  MEZZO_ASSIGN_OR_RETURN(const auto axis, int_of(node, "axis", 2));
  if (length) set_attribute(lowered, "dft_length", *length);
  set_attribute(lowered, "axis", axis.value_or(-2));
  keep_operands(lowered, 1);
  return ok_status();
}

Status lower_stft(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const auto step, int_of(node, "frame_step", 1));
  MEZZO_ASSIGN_OR_RETURN(const auto length, int_of(node, "frame_length", 3));
  set_attribute(lowered, "frame_step", step.value_or(0));
  if (length) set_attribute(lowered, "frame_length", *length);
  lowered.operands = {node.operand(0)};
  if (node.operand(2) != nullptr) lowered.operands.push_back(node.operand(2));
  return ok_status();
}

}  // namespace mezzo
