#include "passes/cleanup/scan_form.h"

#include <string>

namespace mezzo::passes {

StatusOr<ScanForm> read_scan(const Node& node) {
  ScanForm form;
  const std::int64_t scanned = node.int_attribute("num_scan_inputs", 0);
  if (scanned < 1 || static_cast<std::uint64_t>(scanned) > node.operand_count()) {
    return invalid_argument(describe(node) + ": num_scan_inputs: expected 1 to " +
                            std::to_string(node.operand_count()) + ", got " +
                            std::to_string(scanned));
  }
  form.inputs = static_cast<std::size_t>(scanned);
  form.states = node.operand_count() - form.inputs;
  form.input_axes = node.ints_attribute("scan_input_axes");
  form.output_axes = node.ints_attribute("scan_output_axes");
  form.input_directions = node.ints_attribute("scan_input_directions");
  form.output_directions = node.ints_attribute("scan_output_directions");
  form.input_axes.resize(form.inputs);
  for (std::size_t i = 0; i < form.inputs; ++i) {
    const Value* input = node.operand(form.states + i);
    if (input == nullptr || !input->type.is_tensor() || !input->tensor_type().rank()) {
      return unimplemented(describe(node) + ": the rank of scan input " + std::to_string(i) +
                           " is not known");
    }
    const auto rank = static_cast<std::int64_t>(*input->tensor_type().rank());
    std::int64_t& axis = form.input_axes[i];
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) {
      return invalid_argument(describe(node) + ": scan input '" + input->name() + "' has no axis " +
                              std::to_string(axis));
    }
    const Dim& extent = (*input->tensor_type().shape)[static_cast<std::size_t>(axis)];
    if (!extent.known()) {
      return unimplemented(describe(node) + ": its trip count, the size of '" + input->name() +
                           "' along axis " + std::to_string(axis) + ", is not known");
    }
    if (i > 0 && extent.value != form.trips) {
      return invalid_argument(describe(node) + ": scan input '" + input->name() +
                              "': expected length " + std::to_string(form.trips) + ", got " +
                              std::to_string(extent.value));
    }
    form.trips = extent.value;
  }
  return form;
}

}  // namespace mezzo::passes
