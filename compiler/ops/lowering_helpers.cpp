#include "compiler/ops/lowering_helpers.h"

#include <algorithm>
#include <string>

#include "compiler/ops/constants.h"

namespace mezzo {

void set_attribute(LoweredOp& lowered, std::string_view name, Attribute::Value value) {
  erase_attribute(lowered, name);
  Attribute attribute;
  attribute.name = std::string(name);
  attribute.value = std::move(value);
  lowered.attributes.push_back(std::move(attribute));
}

void erase_attribute(LoweredOp& lowered, std::string_view name) {
  std::erase_if(lowered.attributes,
                [&](const Attribute& attribute) { return attribute.name == name; });
}

void keep_operands(LoweredOp& lowered, std::size_t count) {
  if (lowered.operands.size() > count) lowered.operands.resize(count);
}

Status require_operand(const Node& node, std::size_t index) {
  if (node.operand(index) != nullptr) return ok_status();
  return invalid_argument(describe(node) + ": operand " + std::to_string(index) + " is missing");
}

Status require_result(const Node& node, std::size_t index) {
  if (node.result(index) != nullptr) return ok_status();
  return invalid_argument(describe(node) + ": result " + std::to_string(index) + " is missing");
}

StatusOr<std::int64_t> known_rank(const Node& node, const Value& value) {
  if (value.type.is_tensor() && value.tensor_type().shape) {
    return static_cast<std::int64_t>(value.tensor_type().shape->size());
  }
  return unimplemented(describe(node) + ": the rank of '" + value.name() + "' is unknown");
}

StatusOr<std::optional<std::vector<std::int64_t>>> ints_of(const Node& node, std::string_view name,
                                                           std::size_t operand) {
  using Ints = std::optional<std::vector<std::int64_t>>;
  const Value* value = node.operand(operand);
  if (value == nullptr) {
    const Attribute* attribute = node.attribute(name);
    if (attribute == nullptr) return Ints();
    if (attribute->kind() == Attribute::Kind::kInt) {
      return Ints(std::vector{std::get<std::int64_t>(attribute->value)});
    }
    return Ints(node.ints_attribute(name));
  }
  Ints values = constant_ints(value);
  if (values) return values;
  return unimplemented(describe(node) + ", operand " + std::to_string(operand) + " '" +
                       value->name() + "': the runtime needs a constant for " + std::string(name) +
                       ", this one depends on the run. Hint: export with fixed shapes");
}

StatusOr<std::int64_t> normalize_axis(const Node& node, std::int64_t axis, std::int64_t rank) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  return invalid_argument(describe(node) + ": axis " + std::to_string(axis) +
                          " does not exist at rank " + std::to_string(rank));
}

Status lower_alias(const Node&, LoweredOp& lowered) {
  lowered.alias = true;
  lowered.attributes.clear();
  keep_operands(lowered, 1);
  return ok_status();
}

}  // namespace mezzo
