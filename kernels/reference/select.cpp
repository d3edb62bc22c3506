// Selection by content: NonZero and Compress. How much is selected follows from the data.
#include <algorithm>
#include <cstring>

#include "compiler/support/text.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/reference/sized_kernel.h"
#include "kernels/reference/strided_copy.h"

namespace mezzo::kernels::reference {
namespace {

// y[d][k] = coordinate d of the k-th element that is not zero, in row-major order; y is packed
// for `count` elements. The last dim's coordinates run in the inner loop.
template <typename T>
void write_places(const Dims& dims, const T* x, std::int64_t count, std::int64_t* y) {
  const std::size_t rank = dims.size();
  const std::int64_t columns = rank == 0 ? 1 : dims.back();
  Dims row(rank, 0);
  std::int64_t found = 0;
  for (const T* at = x; found < count; at += columns) {
    for (std::int64_t j = 0; j < columns; ++j) {
      if (number_of(at[j]) == 0) continue;
      for (std::size_t d = 0; d + 1 < rank; ++d) {
        y[static_cast<std::int64_t>(d) * count + found] = row[d];
      }
      if (rank > 0) y[static_cast<std::int64_t>(rank - 1) * count + found] = j;
      ++found;
    }
    for (std::size_t d = rank; d > 1; --d) {
      if (++row[d - 2] < dims[d - 2]) break;
      row[d - 2] = 0;
    }
  }
}

}  // namespace

PreparedKernel prepare_non_zero(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:v -> y:l"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const Dims& dims = operands.in(0).dims;
  const Dims& y = operands.out(0).dims;
  if (y.size() != 2 || y[0] != static_cast<std::int64_t>(dims.size())) {
    return operands.out_error(0, "expected dims [" + std::to_string(dims.size()) +
                                     ",at most the elements of x], got " + format_dims(y));
  }
  return make_sized_kernel(
      [dims, elems = operands.in(0).elems(), bound = y[1], op = request.op,
       dtype = operands.in(0).dtype](const KernelArguments& arguments) {
        return with_element_type(dtype, [&](auto element) -> StatusOr<std::int64_t> {
          using T = typename decltype(element)::Type;
          const T* x = static_cast<const T*>(arguments.inputs[0]);
          std::int64_t count = 0;
          for (std::int64_t i = 0; i < elems; ++i) count += number_of(x[i]) != 0 ? 1 : 0;
          if (count > bound) return beyond_bound(op, count, bound);
          write_places(dims, x, count, static_cast<std::int64_t*>(arguments.outputs[0]));
          return count;
        });
      },
      {{0, 1}});
}

// The rows along an axis whose condition holds, or the elements of x as a list. A condition may be
// shorter than the axis, and longer where what is beyond does not hold.
PreparedKernel prepare_compress(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:a condition:b -> y:a"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, 1, 1));
  const TensorDesc& x = operands.in(0);
  if (operands.out(0).dtype != x.dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(x.dtype)));
  }
  AxisView view{1, x.elems(), 1};
  Dims expected = {x.elems()};
  std::int64_t axis = 0;
  if (request.attributes.has("axis")) {
    MEZZO_ASSIGN_OR_RETURN(axis, operands.axis("axis", 0, x.dims.size()));
    view = view_along(x.dims, static_cast<std::size_t>(axis));
    expected = x.dims;
  }
  const auto a = static_cast<std::size_t>(axis);
  const std::int64_t bound = a < operands.out(0).dims.size() ? operands.out(0).dims[a] : 0;
  expected[a] = bound;
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, expected));
  return make_sized_kernel(
      [view, bound, conditions = operands.in(1).elems(),
       row_bytes = static_cast<std::size_t>(view.inner) *
                   element_bytes(x)](const KernelArguments& arguments) -> StatusOr<std::int64_t> {
        const auto* holds = static_cast<const std::uint8_t*>(arguments.inputs[1]);
        std::int64_t count = 0;
        for (std::int64_t j = 0; j < conditions; ++j) {
          if (holds[j] == 0) continue;
          ++count;
          if (j >= view.size) {
            return invalid_argument("Compress, operand 1 'condition': element " +
                                    std::to_string(j) + " holds, the axis has size " +
                                    std::to_string(view.size));
          }
        }
        if (count > bound) return beyond_bound("Compress", count, bound);
        if (row_bytes == 0) return count;
        const auto* from = static_cast<const std::byte*>(arguments.inputs[0]);
        auto* to = static_cast<std::byte*>(arguments.outputs[0]);
        const std::int64_t last = std::min(conditions, view.size);
        for (std::int64_t o = 0; o < view.outer; ++o) {
          for (std::int64_t j = 0; j < last; ++j) {
            if (holds[j] == 0) continue;
            std::memcpy(to, from + static_cast<std::size_t>(o * view.size + j) * row_bytes,
                        row_bytes);
            to += row_bytes;
          }
        }
        return count;
      },
      {{0, a}});
}

}  // namespace mezzo::kernels::reference
