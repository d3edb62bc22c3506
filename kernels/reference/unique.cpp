// Unique elements of x as a list, or unique slices along an axis. Slices compare from their first
// element on; NaN is greater than all numbers and equal to itself, as in numpy.
#include <algorithm>
#include <cstring>

#include "compiler/support/text.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/reference/sized_kernel.h"
#include "kernels/reference/strided_copy.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

// -1, 0 or 1.
template <typename N>
int order_of(N a, N b) {
  if constexpr (std::is_floating_point_v<N>) {
    if (std::isnan(a) || std::isnan(b)) {
      return static_cast<int>(std::isnan(a)) - static_cast<int>(std::isnan(b));
    }
  }
  return a < b ? -1 : static_cast<int>(b < a);
}

template <typename T>
struct Slices {
  const T* x;
  AxisView view;

  int compare(Int a, Int b) const {
    for (Int o = 0; o < view.outer; ++o) {
      const T* base = x + o * view.size * view.inner;
      for (Int i = 0; i < view.inner; ++i) {
        const int order =
            order_of(number_of(base[a * view.inner + i]), number_of(base[b * view.inner + i]));
        if (order != 0) return order;
      }
    }
    return 0;
  }
};

// Workspace: five lists of as many numbers as there are slices.
struct Groups {
  Int* order;   // slices, equal ones side by side, earlier ones first
  Int* group;   // of every slice, in the order of values
  Int* first;   // slice of every group
  Int* counts;  // slices in every group
  Int* places;  // groups in the order of the results
  Int size = 0;

  Groups(void* workspace, Int n)
      : order(static_cast<Int*>(workspace)),
        group(order + n),
        first(group + n),
        counts(first + n),
        places(counts + n) {}
};

template <typename T>
void find_groups(const Slices<T>& slices, bool sorted, Groups& groups) {
  const Int n = slices.view.size;
  for (Int i = 0; i < n; ++i) groups.order[i] = i;
  std::sort(groups.order, groups.order + n, [&](Int a, Int b) {
    const int order = slices.compare(a, b);
    return order != 0 ? order < 0 : a < b;
  });
  for (Int i = 0; i < n; ++i) {
    const Int slice = groups.order[i];
    if (i == 0 || slices.compare(groups.order[i - 1], slice) != 0) {
      groups.first[groups.size] = slice;
      groups.counts[groups.size++] = 0;
    }
    groups.group[slice] = groups.size - 1;
    ++groups.counts[groups.size - 1];
  }
  for (Int g = 0; g < groups.size; ++g) groups.places[g] = g;
  if (sorted) return;
  std::sort(groups.places, groups.places + groups.size,
            [&](Int a, Int b) { return groups.first[a] < groups.first[b]; });
}

void copy_slices(const AxisView& view, const Groups& groups, std::size_t element_bytes,
                 const void* x, void* y) {
  const std::size_t bytes = static_cast<std::size_t>(view.inner) * element_bytes;
  if (bytes == 0) return;
  const auto* from = static_cast<const std::byte*>(x);
  auto* to = static_cast<std::byte*>(y);
  for (Int o = 0; o < view.outer; ++o) {
    for (Int k = 0; k < groups.size; ++k, to += bytes) {
      const Int slice = groups.first[groups.places[k]];
      std::memcpy(to, from + static_cast<std::size_t>(o * view.size + slice) * bytes, bytes);
    }
  }
}

void write_lists(const Groups& groups, Int n, const KernelArguments& arguments) {
  auto* indices = static_cast<Int*>(out_buffer(arguments, 1));
  auto* inverse = static_cast<Int*>(out_buffer(arguments, 2));
  auto* counts = static_cast<Int*>(out_buffer(arguments, 3));
  for (Int k = 0; k < groups.size; ++k) {
    if (indices != nullptr) indices[k] = groups.first[groups.places[k]];
    if (counts != nullptr) counts[k] = groups.counts[groups.places[k]];
  }
  if (inverse == nullptr) return;
  for (Int k = 0; k < groups.size; ++k) groups.order[groups.places[k]] = k;
  for (Int slice = 0; slice < n; ++slice) inverse[slice] = groups.order[groups.group[slice]];
}

}  // namespace

PreparedKernel prepare_unique(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request, "x:v -> y:v indices?:l inverse_indices?:l counts?:l"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const TensorDesc& x = operands.in(0);
  if (operands.out(0).dtype != x.dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(x.dtype)));
  }
  MEZZO_ASSIGN_OR_RETURN(const bool sorted, operands.flag("sorted", true));
  AxisView view{1, x.elems(), 1};
  Dims expected = {x.elems()};
  std::int64_t axis = 0;
  if (request.attributes.has("axis")) {
    MEZZO_ASSIGN_OR_RETURN(axis, operands.axis("axis", 0, x.dims.size()));
    view = view_along(x.dims, static_cast<std::size_t>(axis));
    expected = x.dims;
  }
  const auto a = static_cast<std::size_t>(axis);
  Int bound = a < operands.out(0).dims.size() ? operands.out(0).dims[a] : 0;
  expected[a] = bound;
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, expected));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(2, {view.size}));
  for (const std::size_t list : {1, 3}) {
    if (!operands.out(list).present()) continue;
    if (operands.out(list).dims.size() != 1) return operands.out_error(list, "expected rank 1");
    bound = std::min(bound, operands.out(list).dims[0]);
  }
  return make_sized_kernel(
      [view, bound, sorted, dtype = x.dtype,
       bytes = element_bytes(x)](const KernelArguments& arguments) {
        return with_element_type(dtype, [&](auto element) -> StatusOr<std::int64_t> {
          using T = typename decltype(element)::Type;
          Groups groups(arguments.workspace, view.size);
          find_groups(Slices<T>{static_cast<const T*>(arguments.inputs[0]), view}, sorted, groups);
          if (groups.size > bound) return beyond_bound("Unique", groups.size, bound);
          copy_slices(view, groups, bytes, arguments.inputs[0], arguments.outputs[0]);
          write_lists(groups, view.size, arguments);
          return groups.size;
        });
      },
      {{0, a}, {1, 0}, {3, 0}}, 5 * doubles_bytes(view.size));
}

}  // namespace mezzo::kernels::reference
