// ArgMax, ArgMin: NaN counts as beyond every number, the first of them wins; Hardmax marks the
// place of ArgMax.
#include <cmath>
#include <type_traits>

#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/lines.h"
#include "kernels/reference/nest.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

// The number along the axis of the greatest element, or of the least.
template <typename T>
PreparedKernel arg_kernel(const Operands& operands, const Nest& nest, bool least, bool last) {
  return make_kernel([nest, least, last, x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for_each(nest.outer, [&](const std::array<std::int64_t, 2>& at) {
      std::int64_t best = 0;
      T best_value = x.read_at<T>(arguments.inputs[0], at[0]);
      for (std::int64_t i = 1; i < nest.count; ++i) {
        const T value = x.read_at<T>(arguments.inputs[0], at[0] + i * nest.inner.strides[0][0]);
        const bool beyond = least ? value < best_value : value > best_value;
        const bool above = beyond || (is_nan(value) && !is_nan(best_value));
        const bool equal = value == best_value || (is_nan(value) && is_nan(best_value));
        if (above || (last && equal)) {
          best = i;
          best_value = value;
        }
      }
      y.write_at<Integer>(arguments.outputs[0], at[1], best);
    });
  });
}

}  // namespace

PreparedKernel prepare_arg_extreme(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:n -> y:l"));
  const TensorDesc& x = operands.in(0);
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", 0, x.dims.size()));
  MEZZO_ASSIGN_OR_RETURN(const bool keep, operands.flag("keepdims", true));
  MEZZO_ASSIGN_OR_RETURN(const bool last, operands.flag("select_last_index", false));
  Dims dims = x.dims;
  const auto place = dims.begin() + axis;
  if (*place == 0) return operands.in_error(0, "no elements along the axis");
  if (keep) {
    *place = 1;
  } else {
    dims.erase(place);
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  std::vector<bool> reduced(x.dims.size());
  reduced[static_cast<std::size_t>(axis)] = true;
  const Nest nest = make_nest(x, reduced, kept_strides(operands.out(0), reduced));
  const bool least = request.op == "ArgMin";
  return is_integer(x.dtype) ? arg_kernel<Integer>(operands, nest, least, last)
                             : arg_kernel<double>(operands, nest, least, last);
}

PreparedKernel prepare_hardmax(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  MEZZO_ASSIGN_OR_RETURN(const Lines lines, read_lines(operands));
  return make_kernel([lines, x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    lines.for_each_line([&](std::int64_t start) {
      const auto at = [&](std::int64_t i) {
        return x.read<double>(arguments.inputs[0], start + i * lines.inner);
      };
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < lines.length; ++i) {
        if (at(i) > at(best) || (std::isnan(at(i)) && !std::isnan(at(best)))) best = i;
      }
      for (std::int64_t i = 0; i < lines.length; ++i) {
        y.write<double>(arguments.outputs[0], start + i * lines.inner, i == best ? 1.0 : 0.0);
      }
    });
  });
}

}  // namespace mezzo::kernels::reference
