// Sequences and optionals, and Identity, which passes on whatever it is given.
#include <algorithm>

#include "compiler/interpreter/machine.h"
#include "compiler/interpreter/tensor_moves.h"

namespace mezzo::interpreter {
namespace {

StatusOr<std::vector<RuntimeValue>*> sequence_operand(const Node& node, Values& operands) {
  if (!operands.empty() && operands[0].is_sequence()) return &operands[0].elements;
  return operand_error(node, 0, "a sequence", operands.empty() ? RuntimeValue() : operands[0]);
}

// Operand `index` as a place in a sequence of `size`; `size` itself counts with `end_too`.
StatusOr<std::size_t> position(const Node& node, const Values& operands, std::size_t index,
                               std::size_t size, bool end_too, std::int64_t fallback) {
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t given,
                         integer_operand(node, operands, index, fallback));
  const auto count = static_cast<std::int64_t>(size);
  const std::int64_t place = given < 0 ? given + count : given;
  if (place < 0 || place > count || (place == count && !end_too)) {
    return invalid_argument(mezzo::describe(node) + ": position " + std::to_string(given) +
                            " in a sequence of " + std::to_string(size));
  }
  return static_cast<std::size_t>(place);
}

StatusOr<Values> pass_on(Machine&, Step&, Frame&, Values& operands, bool) {
  Values results;
  results.push_back(operands.empty() ? RuntimeValue() : std::move(operands[0]));
  return results;
}

StatusOr<Values> make_sequence(Machine&, Step&, Frame&, Values& operands, bool) {
  return Values{RuntimeValue::sequence(std::move(operands))};
}

StatusOr<Values> empty_sequence(Machine&, Step&, Frame&, Values&, bool) {
  return Values{RuntimeValue::sequence({})};
}

StatusOr<Values> sequence_at(Machine&, Step& step, Frame&, Values& operands, bool) {
  MEZZO_ASSIGN_OR_RETURN(auto* const elements, sequence_operand(*step.node, operands));
  MEZZO_ASSIGN_OR_RETURN(const std::size_t place,
                         position(*step.node, operands, 1, elements->size(), false, 0));
  return Values{(*elements)[place]};
}

StatusOr<Values> sequence_insert(Machine&, Step& step, Frame&, Values& operands, bool) {
  MEZZO_ASSIGN_OR_RETURN(auto* const elements, sequence_operand(*step.node, operands));
  const auto end = static_cast<std::int64_t>(elements->size());
  MEZZO_ASSIGN_OR_RETURN(const std::size_t place,
                         position(*step.node, operands, 2, elements->size(), true, end));
  if (operands.size() < 2) return operand_error(*step.node, 1, "a tensor", RuntimeValue());
  elements->insert(elements->begin() + static_cast<std::ptrdiff_t>(place), operands[1]);
  return Values{RuntimeValue::sequence(std::move(*elements))};
}

StatusOr<Values> sequence_erase(Machine&, Step& step, Frame&, Values& operands, bool) {
  MEZZO_ASSIGN_OR_RETURN(auto* const elements, sequence_operand(*step.node, operands));
  const auto last = static_cast<std::int64_t>(elements->size()) - 1;
  MEZZO_ASSIGN_OR_RETURN(const std::size_t place,
                         position(*step.node, operands, 1, elements->size(), false, last));
  elements->erase(elements->begin() + static_cast<std::ptrdiff_t>(place));
  return Values{RuntimeValue::sequence(std::move(*elements))};
}

StatusOr<Values> scalar_result(Machine& machine, DType dtype, std::int64_t value) {
  MEZZO_ASSIGN_OR_RETURN(HostTensor made, scalar_tensor(machine, dtype, value));
  return Values{std::move(made)};
}

StatusOr<Values> sequence_length(Machine& machine, Step& step, Frame&, Values& operands, bool) {
  MEZZO_ASSIGN_OR_RETURN(auto* const elements, sequence_operand(*step.node, operands));
  return scalar_result(machine, DType::kInt64, static_cast<std::int64_t>(elements->size()));
}

StatusOr<Values> has_element(Machine& machine, Step&, Frame&, Values& operands, bool) {
  return scalar_result(machine, DType::kBool, !operands.empty() && !operands[0].is_none() ? 1 : 0);
}

StatusOr<Values> get_element(Machine&, Step& step, Frame&, Values& operands, bool) {
  if (operands.empty() || operands[0].is_none())
    return operand_error(*step.node, 0, "an optional that holds something", RuntimeValue());
  return Values{std::move(operands[0])};
}

StatusOr<Values> join_sequence(Machine& machine, Step& step, Frame&, Values& operands, bool) {
  const Node& node = *step.node;
  MEZZO_ASSIGN_OR_RETURN(auto* const elements, sequence_operand(node, operands));
  std::vector<HostTensor> parts;
  for (const RuntimeValue& element : *elements) {
    if (!element.is_tensor()) return operand_error(node, 0, "a sequence of tensors", operands[0]);
    parts.push_back(element.tensor);
  }
  if (parts.empty()) return operand_error(node, 0, "a sequence that is not empty", operands[0]);
  const bool fresh = node.int_attribute("new_axis", 0) != 0;
  const std::size_t rank = parts[0].dims.size() + (fresh ? 1 : 0);
  const std::int64_t given = node.int_attribute("axis", 0);
  const auto axis = axis_of(given, rank);
  if (!axis) {
    return invalid_argument(mezzo::describe(node) + ": axis " + std::to_string(given) +
                            " of a result of rank " + std::to_string(rank));
  }
  std::vector<const HostTensor*> pointers;
  for (const HostTensor& part : parts) pointers.push_back(&part);
  auto whole = fresh ? stack(machine, parts, *axis, false) : join(machine, pointers, *axis);
  if (!whole.ok()) return whole.status().with_context(mezzo::describe(node));
  return Values{std::move(whole).value()};
}

// Sizes of the parts that a tensor of `extent` along the axis is split into.
StatusOr<std::vector<std::int64_t>> part_sizes(const Node& node, const Values& operands,
                                               std::int64_t extent) {
  std::vector<std::int64_t> sizes;
  if (operands.size() < 2 || operands[1].is_none()) {
    sizes.assign(static_cast<std::size_t>(extent), 1);
    return sizes;
  }
  MEZZO_ASSIGN_OR_RETURN(const HostTensor* const split, tensor_operand(node, operands, 1));
  for (std::int64_t i = 0; i < split->elems(); ++i) {
    if (split->dtype == DType::kInt64) sizes.push_back(split->data_as<std::int64_t>()[i]);
    if (split->dtype == DType::kInt32) sizes.push_back(split->data_as<std::int32_t>()[i]);
  }
  if (split->dims.empty() && sizes.size() == 1 && sizes[0] > 0) {  // parts of equal size
    const std::int64_t size = sizes[0];
    sizes.clear();
    for (std::int64_t left = extent; left > 0; left -= size) sizes.push_back(std::min(left, size));
    return sizes;
  }
  std::int64_t left = extent;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > left)
      return operand_error(node, 1, "sizes that add up to " + std::to_string(extent), operands[1]);
    left -= size;
  }
  if (left != 0)
    return operand_error(node, 1, "sizes that add up to " + std::to_string(extent), operands[1]);
  return sizes;
}

StatusOr<Values> split_to_sequence(Machine& machine, Step& step, Frame&, Values& operands, bool) {
  const Node& node = *step.node;
  MEZZO_ASSIGN_OR_RETURN(const HostTensor* const tensor, tensor_operand(node, operands, 0));
  const auto axis = axis_of(node.int_attribute("axis", 0), tensor->dims.size());
  if (!axis) {
    return invalid_argument(mezzo::describe(node) + ": axis " +
                            std::to_string(node.int_attribute("axis", 0)) + " of " +
                            mezzo::describe(operands[0]));
  }
  MEZZO_ASSIGN_OR_RETURN(const auto sizes, part_sizes(node, operands, tensor->dims[*axis]));
  const bool drop_axis =
      (operands.size() < 2 || operands[1].is_none()) && node.int_attribute("keepdims", 1) == 0;
  std::vector<RuntimeValue> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    MEZZO_ASSIGN_OR_RETURN(HostTensor part, part_of(machine, *tensor, *axis, begin, size));
    parts.emplace_back(drop_axis ? without_axis(std::move(part), *axis) : std::move(part));
    begin += size;
  }
  return Values{RuntimeValue::sequence(std::move(parts))};
}

// Runs the body once per element of the first sequence; other operands are sequences of the same
// length, or tensors that every run gets whole.
StatusOr<Values> map_sequence(Machine& machine, Step& step, Frame& frame, Values& operands,
                              bool observed) {
  const Node& node = *step.node;
  MEZZO_ASSIGN_OR_RETURN(auto* const elements, sequence_operand(node, operands));
  if (step.graphs.size() != 1 || step.graphs[0]->inputs.size() != operands.size())
    return invalid_argument(mezzo::describe(node) + ": expected a body with one input per operand");
  Program& body = *step.graphs[0];
  const std::size_t count = elements->size();
  std::vector<std::vector<RuntimeValue>> mapped(body.outputs.size());
  for (std::size_t i = 0; i < count; ++i) {
    Values inputs;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      if (operands[k].is_sequence() && operands[k].elements.size() != count) {
        return operand_error(node, k, "a sequence of " + std::to_string(count), operands[k]);
      }
      inputs.push_back(operands[k].is_sequence() ? operands[k].elements[i] : operands[k]);
    }
    MEZZO_ASSIGN_OR_RETURN(Values outputs,
                           machine.run_program(body, std::move(inputs), &frame, observed));
    for (std::size_t k = 0; k < mapped.size(); ++k) mapped[k].push_back(std::move(outputs[k]));
  }
  Values results;
  for (auto& list : mapped) results.push_back(RuntimeValue::sequence(std::move(list)));
  return results;
}

struct ContainerOp {
  std::string_view name;
  Handler handler;
};

constexpr ContainerOp kContainerOps[] = {
    {"Identity", pass_on},
    {"Optional", pass_on},
    {"OptionalHasElement", has_element},
    {"OptionalGetElement", get_element},
    {"SequenceConstruct", make_sequence},
    {"SequenceEmpty", empty_sequence},
    {"SequenceAt", sequence_at},
    {"SequenceInsert", sequence_insert},
    {"SequenceErase", sequence_erase},
    {"SequenceLength", sequence_length},
    {"SequenceMap", map_sequence},
    {"ConcatFromSequence", join_sequence},
    {"SplitToSequence", split_to_sequence},
};

}  // namespace

Handler find_container_op(const Node& node) {
  if (!node.domain().empty()) return nullptr;
  for (const ContainerOp& op : kContainerOps) {
    if (op.name == node.op_type()) return op.handler;
  }
  return nullptr;
}

}  // namespace mezzo::interpreter
