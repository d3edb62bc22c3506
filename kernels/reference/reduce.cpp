// Reductions over a set of axes, and SumTo (the gradient of broadcasting).
//
// Each result is one pass over its elements in row-major order (ReduceLogSumExp: two), in double
// (integers exactly) and rounded once. NaN wins in ReduceMax and ReduceMin. No elements give the
// start of the sum or product, and for ReduceMax and ReduceMin the end of the dtype's range.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/nest.h"
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
// Beyond every value an integer dtype holds; finish_extreme brings them back.
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
    {"ReduceL1", 0.0, [](double sum, double x) { return sum + std::fabs(x); }},
    {"ReduceLogSum", 0.0, [](double sum, double x) { return sum + x; },
     [](double sum, std::int64_t) { return std::log(sum); }},
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
    {"ReduceL1", 0, [](Integer sum, Integer x) -> Integer { return sum + (x < 0 ? -x : x); }},
};

// The ends of what a dtype holds, for maxima and minima of nothing.
struct Ends {
  Integer least;
  Integer greatest;
};
Ends ends_of(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  const int bits = dtype_bits(dtype);
  const bool is_unsigned = dtype == DType::kUInt8 || dtype == DType::kUInt16 ||
                           dtype == DType::kUInt32 || dtype == DType::kUInt64;
  if (is_unsigned) return {0, (Integer{1} << bits) - 1};
  return {-(Integer{1} << (bits - 1)), (Integer{1} << (bits - 1)) - 1};
}

template <typename T>
PreparedKernel reduce_kernel(const Operands& operands, const Nest& nest,
                             const Reduction<T>& reduction) {
  return make_kernel([nest, reduction, x = Elements(operands.in(0)), y = Elements(operands.out(0)),
                      ends = ends_of(operands.in(0).dtype)](const KernelArguments& arguments) {
    for_each(nest.outer, [&](const std::array<std::int64_t, 2>& at) {
      T sum = reduction.start;
      for_each(nest.inner, {at[0]}, [&](const std::array<std::int64_t, 1>& element) {
        sum = reduction.step(sum, x.read_at<T>(arguments.inputs[0], element[0]));
      });
      sum = reduction.finish(sum, nest.count);
      if constexpr (std::is_same_v<T, Integer>) {
        if (nest.count == 0) sum = std::clamp(sum, ends.least, ends.greatest);
      }
      y.write_at<T>(arguments.outputs[0], at[1], sum);
    });
  });
}

// log of the sum of exp(x), with the largest x taken out first so that no exp overflows.
PreparedKernel log_sum_exp_kernel(const Operands& operands, const Nest& nest) {
  return make_kernel([nest, x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for_each(nest.outer, [&](const std::array<std::int64_t, 2>& at) {
      const auto each = [&](const auto& visit) {
        for_each(nest.inner, {at[0]}, [&](const std::array<std::int64_t, 1>& element) {
          visit(x.read_at<double>(arguments.inputs[0], element[0]));
        });
      };
      double largest = -kInfinity;
      each([&](double value) { largest = std::fmax(largest, value); });
      // Infinities as they are: their difference would be NaN.
      const double shift = std::isfinite(largest) ? largest : 0.0;
      double sum = 0.0;
      each([&](double value) { sum += std::exp(value - shift); });
      y.write_at<double>(arguments.outputs[0], at[1], std::log(sum) + shift);
    });
  });
}

template <typename T, std::size_t N>
PreparedKernel find_and_reduce(const Operands& operands, const Nest& nest,
                               const Reduction<T> (&rows)[N]) {
  for (const Reduction<T>& row : rows) {
    if (row.op == operands.op()) return reduce_kernel<T>(operands, nest, row);
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

}  // namespace

PreparedKernel prepare_reduce(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:v -> y:v"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  MEZZO_ASSIGN_OR_RETURN(const Reduced reduced, read_axes(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, reduced.dims));
  const DType dtype = operands.in(0).dtype;
  const bool extreme = request.op == "ReduceMax" || request.op == "ReduceMin";
  if (dtype == DType::kBool && !extreme) {
    return unimplemented(request.op + ": bool operands are not supported");
  }
  const Nest nest =
      make_nest(operands.in(0), reduced.flags, kept_strides(operands.out(0), reduced.flags));
  if (request.op == "ReduceLogSumExp") return log_sum_exp_kernel(operands, nest);
  // Logarithms and roots of integers are taken in double and truncated.
  const bool in_double = request.op == "ReduceLogSum" || request.op == "ReduceL2";
  if (!is_floating(dtype) && !in_double) return find_and_reduce(operands, nest, kIntegers);
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

}  // namespace mezzo::kernels::reference
