#include "kernels/reference/indices.h"

namespace mezzo::kernels::reference {

Status expect_row_major(const Operands& operands) {
  bool row_major = true;
  for (std::size_t i = 0; i < operands.in_count(); ++i) {
    row_major = row_major && operands.in(i).layout == Layout::kRowMajor;
  }
  for (std::size_t i = 0; i < operands.out_count(); ++i) {
    row_major = row_major && operands.out(i).layout == Layout::kRowMajor;
  }
  if (row_major) return ok_status();
  return unimplemented(operands.op() + ": channels-last is not supported");
}

Status index_error(std::string_view op, std::string_view operand, std::int64_t position,
                   std::int64_t value, std::int64_t size) {
  return invalid_argument(std::string(op) + ", " + std::string(operand) + ": element " +
                          std::to_string(position) + " is " + std::to_string(value) +
                          ", expected -" + std::to_string(size) + " to " +
                          std::to_string(size - 1));
}

AxisView view_along(const Dims& dims, std::size_t axis) {
  AxisView view;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (d < axis) view.outer *= dims[d];
    if (d == axis) view.size = dims[d];
    if (d > axis) view.inner *= dims[d];
  }
  return view;
}

}  // namespace mezzo::kernels::reference
