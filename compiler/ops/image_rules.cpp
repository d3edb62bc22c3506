#include "compiler/ops/image_rules.h"

#include <string>

#include "compiler/ops/constants.h"
#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

// Sets attribute `name` to the numbers of a constant operand; nothing where it is absent or empty.
Status numbers_to_attribute(const Node& node, std::size_t operand, std::string_view name,
                            LoweredOp& lowered) {
  const Value* value = node.operand(operand);
  if (value == nullptr) return ok_status();
  const TensorRef constant = constant_of(value);
  if (!constant) {
    return unimplemented(describe(node) + ", operand " + std::to_string(operand) + " '" +
                         value->name() + "': the runtime needs a constant for " +
                         std::string(name) + ", this one depends on the run");
  }
  const std::vector<double> numbers = constant->to_doubles();
  if (numbers.empty()) return ok_status();
  set_attribute(lowered, name, std::vector<float>(numbers.begin(), numbers.end()));
  return ok_status();
}

}  // namespace

Status lower_resize(const Node& node, LoweredOp& lowered) {
  // Opset 10 has the scales right behind x, and one way to compute positions.
  const bool old =
      node.operand_count() == 2 && !node.has_attribute("coordinate_transformation_mode");
  if (old) {
    set_attribute(lowered, "coordinate_transformation_mode", std::string("asymmetric"));
    set_attribute(lowered, "nearest_mode", std::string("floor"));
  }
  if (node.string_attribute("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    MEZZO_RETURN_IF_ERROR(numbers_to_attribute(node, 1, "roi", lowered));
  }
  const Value* sizes = node.operand(3);
  if (sizes != nullptr) {
    MEZZO_ASSIGN_OR_RETURN(const auto given, ints_of(node, "sizes", 3));
    if (given && !given->empty()) set_attribute(lowered, "sizes", *given);
  } else {
    MEZZO_RETURN_IF_ERROR(numbers_to_attribute(node, old ? 1 : 2, "scales", lowered));
  }
  keep_operands(lowered, 1);
  return ok_status();
}

Status lower_upsample(const Node& node, LoweredOp& lowered) {
  lowered.kernel = "Resize";
  const std::string mode = node.string_attribute("mode", "nearest");
  const Attribute* scales = node.attribute("scales");  // of opset 7
  lowered.attributes.clear();
  if (scales != nullptr) set_attribute(lowered, "scales", scales->value);
  MEZZO_RETURN_IF_ERROR(numbers_to_attribute(node, 1, "scales", lowered));
  set_attribute(lowered, "mode", mode);
  set_attribute(lowered, "coordinate_transformation_mode", std::string("asymmetric"));
  set_attribute(lowered, "nearest_mode", std::string("floor"));
  keep_operands(lowered, 1);
  return ok_status();
}

Status lower_col2im(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const auto block, ints_of(node, "block_shape", 2));
  if (!block) return invalid_argument(describe(node) + ": block_shape is missing");
  set_attribute(lowered, "block_shape", *block);
  keep_operands(lowered, 1);
  return ok_status();
}

Status lower_affine_grid(const Node&, LoweredOp& lowered) {
  keep_operands(lowered, 1);
  return ok_status();
}

Status lower_max_unpool(const Node&, LoweredOp& lowered) {
  keep_operands(lowered, 2);
  return ok_status();
}

}  // namespace mezzo
