// What the operators that read indices share: bounds, errors, dispatch by the indices' type.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/reference/element_types.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {

// Unimplemented if an operand or result is channels-last.
Status expect_row_major(const Operands& operands);

// InvalidArgument: element `position` of operand `operand` is `value`, which is not in
// [-size, size).
Status index_error(std::string_view op, std::string_view operand, std::int64_t position,
                   std::int64_t value, std::int64_t size);

// visit(TypeTag<std::int32_t or std::int64_t>()).
template <typename Visit>
auto with_index_type(DType dtype, Visit&& visit) {
  return dtype == DType::kInt32 ? visit(TypeTag<std::int32_t>()) : visit(TypeTag<std::int64_t>());
}

// x seen as [outer][size][inner] around one axis.
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;
};
AxisView view_along(const Dims& dims, std::size_t axis);

}  // namespace mezzo::kernels::reference
