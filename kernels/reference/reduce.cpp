// Reductions over a set of axes, SumTo (the gradient of broadcasting) and ArgMax.
//
// Each result is one pass over its elements in row-major order, in double (integers exactly) and
// rounded once. NaN wins in ReduceMax, ReduceMin and ArgMax.
#include <cmath>
#include <limits>
#include <type_traits>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

// start, then step for every element, then finish.
template <typename T>
struct Reduction {
  std::string_view op;
  T start;
  T (*step)(T sum, T x);
  T (*finish)(T sum, std::int64_t count) = [](T sum, std::int64_t) { return sum; };
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Beyond every value an integer dtype holds.
constexpr Integer kHuge = Integer{1} << 100;

constexpr Reduction<double> kFloating[] = {
    {"ReduceSum", 0.0, [](double sum, double x) { return sum + x; }},
    {"ReduceMean", 0.0, [](double sum, double x) { return sum + x; },
     [](double sum, std::int64_t count) { return sum / static_cast<double>(count); }},
    {"ReduceMax", -kInfinity,
     [](double best, double x) { return x > best || std::isnan(x) ? x : best; }},
    {"ReduceMin", kInfinity,
     [](double best, double x) { return x < best || std::isnan(x) ? x : best; }},
    {"ReduceProd", 1.0, [](double product, double x) { return product * x; }},
    {"ReduceSumSquare", 0.0, [](double sum, double x) { return sum + x * x; }},
    {"ReduceL2", 0.0, [](double sum, double x) { return sum + x * x; },
     [](double sum, std::int64_t) { return std::sqrt(sum); }},
};

// Products wrap as the stored low 64 bits ask.
Integer wrapping_product(Integer a, Integer b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

constexpr Reduction<Integer> kIntegers[] = {
    {"ReduceSum", 0, [](Integer sum, Integer x) -> Integer { return sum + x; }},
    {"ReduceMean", 0, [](Integer sum, Integer x) -> Integer { return sum + x; },
     [](Integer sum, std::int64_t count) -> Integer { return count == 0 ? 0 : sum / count; }},
    {"ReduceMax", -kHuge, [](Integer best, Integer x) -> Integer { return x > best ? x : best; }},
    {"ReduceMin", kHuge, [](Integer best, Integer x) -> Integer { return x < best ? x : best; }},
    {"ReduceProd", 1, wrapping_product},
    {"ReduceSumSquare", 0,
     [](Integer sum, Integer x) -> Integer { return sum + wrapping_product(x, x); }},
};

// The results as an outer loop (views: x, y), the elements of one result as an inner loop (x).
struct Nest {
  Loop<2> outer;
  Loop<1> inner;
  std::int64_t count = 1;  // elements per result
};

// `reduced[d]`: dim d of x is summed away. `y_strides` of the kept dims, in order.
Nest make_nest(const TensorDesc& x, const std::vector<bool>& reduced, const Dims& y_strides) {
  const Dims strides = element_strides(x);
  Nest nest;
  std::size_t kept = 0;
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    if (reduced[d]) {
      nest.inner.dims.push_back(x.dims[d]);
      nest.inner.strides[0].push_back(strides[d]);
      nest.count *= x.dims[d];
    } else {
      nest.outer.dims.push_back(x.dims[d]);
      nest.outer.strides[0].push_back(strides[d]);
      nest.outer.strides[1].push_back(y_strides[kept++]);
    }
  }
  return nest;
}

template <typename T>
PreparedKernel reduce_kernel(const Operands& operands, const Nest& nest,
                             const Reduction<T>& reduction) {
  return make_kernel([nest, reduction, x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for_each(nest.outer, [&](const std::array<std::int64_t, 2>& at) {
      T sum = reduction.start;
      for_each(nest.inner, {at[0]}, [&](const std::array<std::int64_t, 1>& element) {
        sum = reduction.step(sum, x.read_at<T>(arguments.inputs[0], element[0]));
      });
      y.write_at<T>(arguments.outputs[0], at[1], reduction.finish(sum, nest.count));
    });
  });
}

template <typename T, std::size_t N>
PreparedKernel find_and_reduce(const Operands& operands, const Nest& nest,
                               const Reduction<T> (&rows)[N]) {
  for (const Reduction<T>& row : rows) {
    if (row.op != operands.op()) continue;
    // The start of ReduceMax and ReduceMin is no value of the dtype.
    if (std::is_same_v<T, Integer> && nest.count == 0 && row.start != 0 && row.start != 1) {
      return operands.in_error(0, "no elements to reduce");
    }
    return reduce_kernel<T>(operands, nest, row);
  }
  return unimplemented(operands.op() + ": " + std::string(dtype_name(operands.in(0).dtype)) +
                       " operands are not supported");
}

// Strides of y for the dims of x that are kept, and the dims y must have.
struct Reduced {
  std::vector<bool> flags;
  Dims dims;  // with keepdims as asked
};

StatusOr<Reduced> read_axes(const Operands& operands) {
  const Dims& dims = operands.in(0).dims;
  MEZZO_ASSIGN_OR_RETURN(const Dims axes, operands.axes("axes", {}, dims.size()));
  MEZZO_ASSIGN_OR_RETURN(const bool keep, operands.flag("keepdims", true));
  MEZZO_ASSIGN_OR_RETURN(const bool noop, operands.flag("noop_with_empty_axes", false));
  Reduced reduced;
  reduced.flags.assign(dims.size(), axes.empty() && !noop);
  for (const std::int64_t axis : axes) reduced.flags[static_cast<std::size_t>(axis)] = true;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (!reduced.flags[d]) {
      reduced.dims.push_back(dims[d]);
    } else if (keep) {
      reduced.dims.push_back(1);
    }
  }
  return reduced;
}

// Strides in y of the dims kept. With keepdims y has the rank of x.
Dims kept_strides(const TensorDesc& y, const std::vector<bool>& reduced) {
  const Dims strides = element_strides(y);
  if (strides.size() != reduced.size()) return strides;  // without keepdims: all are kept
  Dims kept;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (!reduced[d]) kept.push_back(strides[d]);
  }
  return kept;
}

}  // namespace

PreparedKernel prepare_reduce(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:n -> y:n"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  MEZZO_ASSIGN_OR_RETURN(const Reduced reduced, read_axes(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, reduced.dims));
  const Nest nest =
      make_nest(operands.in(0), reduced.flags, kept_strides(operands.out(0), reduced.flags));
  if (is_integer(operands.in(0).dtype)) return find_and_reduce(operands, nest, kIntegers);
  return find_and_reduce(operands, nest, kFloating);
}

PreparedKernel prepare_sum_to(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  const Dims& from = operands.in(0).dims;
  const TensorDesc& y = operands.out(0);
  if (!broadcasts_to(y.dims, from)) {
    return operands.out_error(0, "dims " + format_dims(y.dims) + " do not broadcast to " +
                                     format_dims(from) + " of operand 0");
  }
  const Dims strides = element_strides(y);
  const std::size_t lead = from.size() - y.dims.size();
  std::vector<bool> reduced(from.size());
  Dims kept;
  for (std::size_t d = 0; d < from.size(); ++d) {
    reduced[d] = d < lead || (y.dims[d - lead] == 1 && from[d] != 1);
    if (!reduced[d]) kept.push_back(strides[d - lead]);
  }
  return reduce_kernel<double>(operands, make_nest(operands.in(0), reduced, kept), kFloating[0]);
}

namespace {

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

template <typename T>
PreparedKernel arg_max_kernel(const Operands& operands, const Nest& nest, bool last) {
  return make_kernel([nest, last, x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for_each(nest.outer, [&](const std::array<std::int64_t, 2>& at) {
      std::int64_t best = 0;
      T best_value = x.read_at<T>(arguments.inputs[0], at[0]);
      for (std::int64_t i = 1; i < nest.count; ++i) {
        const T value = x.read_at<T>(arguments.inputs[0], at[0] + i * nest.inner.strides[0][0]);
        const bool above = value > best_value || (is_nan(value) && !is_nan(best_value));
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

PreparedKernel prepare_arg_max(const KernelRequest& request) {
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
  return is_integer(x.dtype) ? arg_max_kernel<Integer>(operands, nest, last)
                             : arg_max_kernel<double>(operands, nest, last);
}

}  // namespace mezzo::kernels::reference
