#include "kernels/reference/lines.h"

namespace mezzo::kernels::reference {

StatusOr<Lines> read_lines(const Operands& operands, std::int64_t fallback) {
  const Dims& dims = operands.in(0).dims;
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", fallback, dims.size()));
  Lines lines;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto place = static_cast<std::int64_t>(d);
    (place < axis ? lines.outer : place == axis ? lines.length : lines.inner) *= dims[d];
  }
  return lines;
}

}  // namespace mezzo::kernels::reference
