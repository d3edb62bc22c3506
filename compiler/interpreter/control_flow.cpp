// If, Loop, Scan and calls of local functions: graphs that run inside a node.
#include <algorithm>

#include "compiler/interpreter/machine.h"
#include "compiler/interpreter/tensor_moves.h"
#include "compiler/ops/constants.h"

namespace mezzo::interpreter {
namespace {

// The attribute in which `expand-functions` (passes/cleanup) leaves the body of a call.
constexpr std::string_view kCallBody = "mezzo.call_body";

// The program of the graph in attribute `name`.
StatusOr<Program*> program_of(Step& step, std::string_view name) {
  const Attribute* attribute = step.node->attribute(name);
  const auto* graph =
      attribute == nullptr ? nullptr : std::get_if<Attribute::GraphRef>(&attribute->value);
  if (graph != nullptr) {
    for (const auto& program : step.graphs) {
      if (program->graph == graph->get()) return program.get();
    }
  }
  return invalid_argument(mezzo::describe(*step.node) + ": expected a graph in attribute " +
                          std::string(name));
}

Status in_node(const Node& node, const Status& status) {
  return status.with_context(mezzo::describe(node));
}

Status wrong_body(const Node& node, const std::string& what, std::size_t expected,
                  std::size_t got) {
  return invalid_argument(mezzo::describe(node) + ": its body has " + std::to_string(got) + " " +
                          what + ", expected " + std::to_string(expected));
}

StatusOr<Values> run_if(Machine& machine, Step& step, Frame& frame, Values& operands,
                        bool observed) {
  if (operands.empty() || operands[0].is_none())
    return operand_error(*step.node, 0, "one integer or bool", RuntimeValue());
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t condition, integer_operand(*step.node, operands, 0, 0));
  MEZZO_ASSIGN_OR_RETURN(Program* const branch,
                         program_of(step, condition != 0 ? "then_branch" : "else_branch"));
  if (branch->outputs.size() != step.results.size())
    return wrong_body(*step.node, "outputs", step.results.size(), branch->outputs.size());
  return machine.run_program(*branch, {}, &frame, observed);
}

StatusOr<Values> run_call(Machine& machine, Step& step, Frame&, Values& operands, bool observed) {
  MEZZO_ASSIGN_OR_RETURN(Program* const body, program_of(step, kCallBody));
  // A body knows nothing of the caller's values.
  return machine.run_program(*body, operands, nullptr, observed);
}

// What a scan result is without any iteration: no elements, and the dims that the body declares.
StatusOr<HostTensor> empty_scan(Machine& machine, const Value& declared, std::size_t axis) {
  const DType dtype = declared.dtype() == DType::kNone ? DType::kFloat32 : declared.dtype();
  std::vector<std::int64_t> dims;
  if (declared.type.is_tensor() && declared.tensor_type().shape) {
    for (const Dim& dim : *declared.tensor_type().shape)
      dims.push_back(dim.known() ? dim.value : 0);
  }
  axis = std::min(axis, dims.size());
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 0);
  MEZZO_ASSIGN_OR_RETURN(NewTensor made, machine.allocate(dtype, std::move(dims)));
  return std::move(made).finish();
}

// The rows that scan results collect, one list per result.
class ScanResults {
 public:
  explicit ScanResults(std::size_t count) : rows_(count) {}

  Status add(const Node& node, std::size_t index, RuntimeValue value) {
    if (!value.is_tensor()) {
      return invalid_argument(mezzo::describe(node) + ": scan output " + std::to_string(index) +
                              ": expected a tensor, got " + mezzo::describe(value));
    }
    rows_[index].push_back(std::move(value.tensor));
    return ok_status();
  }
  StatusOr<HostTensor> finish(Machine& machine, const Value& declared, std::size_t index,
                              std::size_t axis, bool backwards) {
    std::vector<HostTensor> rows = std::move(rows_[index]);
    if (rows.empty()) return empty_scan(machine, declared, axis);
    return stack(machine, rows, axis, backwards);
  }

 private:
  std::vector<std::vector<HostTensor>> rows_;
};

StatusOr<Values> run_loop(Machine& machine, Step& step, Frame& frame, Values& operands,
                          bool observed) {
  const Node& node = *step.node;
  MEZZO_ASSIGN_OR_RETURN(Program* const body, program_of(step, "body"));
  constexpr std::int64_t kNoCount = -1;
  const bool counted = !operands.empty() && !operands[0].is_none();
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t trips, integer_operand(node, operands, 0, kNoCount));
  MEZZO_ASSIGN_OR_RETURN(std::int64_t condition, integer_operand(node, operands, 1, 1));
  const std::size_t carried = operands.size() > 2 ? operands.size() - 2 : 0;
  if (body->inputs.size() != carried + 2)
    return wrong_body(node, "inputs", carried + 2, body->inputs.size());
  if (body->outputs.size() < carried + 1)
    return wrong_body(node, "outputs (at least)", carried + 1, body->outputs.size());
  Values state(std::make_move_iterator(operands.begin() +
                                       static_cast<std::ptrdiff_t>(operands.size() - carried)),
               std::make_move_iterator(operands.end()));
  ScanResults scans(body->outputs.size() - carried - 1);
  for (std::int64_t i = 0; condition != 0 && (!counted || i < trips); ++i) {
    MEZZO_RETURN_IF_ERROR(machine.count_iteration(node));
    Values inputs;
    MEZZO_ASSIGN_OR_RETURN(HostTensor number, scalar_tensor(machine, DType::kInt64, i));
    MEZZO_ASSIGN_OR_RETURN(HostTensor going, scalar_tensor(machine, DType::kBool, 1));
    inputs.emplace_back(std::move(number));
    inputs.emplace_back(std::move(going));
    for (RuntimeValue& value : state) inputs.push_back(std::move(value));
    MEZZO_ASSIGN_OR_RETURN(Values outputs,
                           machine.run_program(*body, std::move(inputs), &frame, observed));
    MEZZO_ASSIGN_OR_RETURN(condition, integer_operand(node, outputs, 0, 1));
    for (std::size_t v = 0; v < carried; ++v) state[v] = std::move(outputs[v + 1]);
    for (std::size_t s = carried + 1; s < outputs.size(); ++s)
      MEZZO_RETURN_IF_ERROR(scans.add(node, s - carried - 1, std::move(outputs[s])));
  }
  Values results = std::move(state);
  for (std::size_t s = carried + 1; s < body->outputs.size(); ++s) {
    auto stacked = scans.finish(machine, *body->graph->outputs()[s], s - carried - 1, 0, false);
    if (!stacked.ok()) return in_node(node, stacked.status());
    results.emplace_back(std::move(stacked).value());
  }
  return results;
}

// The operands of a Scan by what they are for, and how it walks over them.
struct ScanForm {
  std::size_t states = 0, inputs = 0, outputs = 0;
  std::vector<std::int64_t> input_axes, output_axes, input_directions, output_directions;
  std::int64_t trips = 0;

  static std::int64_t at(const std::vector<std::int64_t>& list, std::size_t i) {
    return i < list.size() ? list[i] : 0;
  }
};

StatusOr<ScanForm> read_scan(const Node& node, const Program& body, const Values& operands) {
  ScanForm form;
  const std::int64_t scanned = node.int_attribute("num_scan_inputs", 0);
  if (scanned < 1 || static_cast<std::uint64_t>(scanned) > operands.size()) {
    return invalid_argument(mezzo::describe(node) + ": num_scan_inputs: expected 1 to " +
                            std::to_string(operands.size()) + ", got " + std::to_string(scanned));
  }
  form.inputs = static_cast<std::size_t>(scanned);
  form.states = operands.size() - form.inputs;
  if (body.inputs.size() != operands.size())
    return wrong_body(node, "inputs", operands.size(), body.inputs.size());
  if (body.outputs.size() < form.states)
    return wrong_body(node, "outputs (at least)", form.states, body.outputs.size());
  form.outputs = body.outputs.size() - form.states;
  form.input_axes = node.ints_attribute("scan_input_axes");
  form.output_axes = node.ints_attribute("scan_output_axes");
  form.input_directions = node.ints_attribute("scan_input_directions");
  form.output_directions = node.ints_attribute("scan_output_directions");
  for (std::size_t i = 0; i < form.inputs; ++i) {
    MEZZO_ASSIGN_OR_RETURN(const HostTensor* const tensor,
                           tensor_operand(node, operands, form.states + i));
    const auto axis = axis_of(ScanForm::at(form.input_axes, i), tensor->dims.size());
    if (!axis) {
      return operand_error(node, form.states + i,
                           "an axis " + std::to_string(ScanForm::at(form.input_axes, i)),
                           operands[form.states + i]);
    }
    const std::int64_t extent = tensor->dims[*axis];
    if (i > 0 && extent != form.trips) {
      return operand_error(node, form.states + i,
                           "length " + std::to_string(form.trips) + " along axis " +
                               std::to_string(*axis) + ", as the first scan input",
                           operands[form.states + i]);
    }
    form.trips = extent;
  }
  return form;
}

StatusOr<RuntimeValue> scan_slice(Machine& machine, const HostTensor& tensor, std::int64_t axis,
                                  bool backwards, std::int64_t trip) {
  const std::size_t at = *axis_of(axis, tensor.dims.size());
  const std::int64_t index = backwards ? tensor.dims[at] - 1 - trip : trip;
  MEZZO_ASSIGN_OR_RETURN(HostTensor part, part_of(machine, tensor, at, index, 1));
  return RuntimeValue(without_axis(std::move(part), at));
}

StatusOr<Values> finish_scan(Machine& machine, const Node& node, const Program& body,
                             const ScanForm& form, ScanResults& scans, Values state) {
  for (std::size_t i = 0; i < form.outputs; ++i) {
    const Value& declared = *body.graph->outputs()[form.states + i];
    std::int64_t axis = ScanForm::at(form.output_axes, i);
    if (axis < 0) {  // counts from the end of the stacked result
      const auto rank = declared.type.is_tensor() ? declared.tensor_type().rank() : std::nullopt;
      if (!rank) {
        return unimplemented(mezzo::describe(node) + ": scan_output_axes: " + std::to_string(axis) +
                             " for a result of unknown rank");
      }
      axis += static_cast<std::int64_t>(*rank) + 1;
    }
    if (axis < 0) return invalid_argument(mezzo::describe(node) + ": scan_output_axes: too low");
    auto stacked = scans.finish(machine, declared, i, static_cast<std::size_t>(axis),
                                ScanForm::at(form.output_directions, i) != 0);
    if (!stacked.ok()) return in_node(node, stacked.status());
    state.emplace_back(std::move(stacked).value());
  }
  return state;
}

StatusOr<Values> run_scan(Machine& machine, Step& step, Frame& frame, Values& operands,
                          bool observed) {
  const Node& node = *step.node;
  MEZZO_ASSIGN_OR_RETURN(Program* const body, program_of(step, "body"));
  MEZZO_ASSIGN_OR_RETURN(const ScanForm form, read_scan(node, *body, operands));
  Values state(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(form.states));
  ScanResults scans(form.outputs);
  for (std::int64_t trip = 0; trip < form.trips; ++trip) {
    MEZZO_RETURN_IF_ERROR(machine.count_iteration(node));
    Values inputs = std::move(state);
    for (std::size_t i = 0; i < form.inputs; ++i) {
      MEZZO_ASSIGN_OR_RETURN(
          RuntimeValue slice,
          scan_slice(machine, operands[form.states + i].tensor, ScanForm::at(form.input_axes, i),
                     ScanForm::at(form.input_directions, i) != 0, trip));
      inputs.push_back(std::move(slice));
    }
    MEZZO_ASSIGN_OR_RETURN(Values outputs,
                           machine.run_program(*body, std::move(inputs), &frame, observed));
    for (std::size_t i = 0; i < form.outputs; ++i)
      MEZZO_RETURN_IF_ERROR(scans.add(node, i, std::move(outputs[form.states + i])));
    outputs.resize(form.states);
    state = std::move(outputs);
  }
  return finish_scan(machine, node, *body, form, scans, std::move(state));
}

}  // namespace

Handler find_control_flow(const Node& node) {
  if (node.is("If")) return run_if;
  if (node.is("Loop")) return run_loop;
  if (node.is("Scan")) return run_scan;
  if (node.has_attribute(kCallBody)) return run_call;
  return nullptr;
}

}  // namespace mezzo::interpreter
