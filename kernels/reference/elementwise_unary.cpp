// y[i] = f(x[i]): activations, Clip, Not, IsNaN, IsInf and BitCast.
//
// x and y have equal dims in any layout; computed in double by the formulas that the GPU has, too
// (kernels/formulas/elementwise.h), and rounded once. NaN goes through every function, Clip
// included.
#include <cmath>
#include <cstring>
#include <iterator>

#include "kernels/element_program.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

struct IntegerFunction {
  std::string_view op;
  Integer (*function)(Integer x);
};

constexpr IntegerFunction kIntegerFunctions[] = {
    {"Relu", [](Integer x) -> Integer { return x < 0 ? 0 : x; }},
    {"Neg", [](Integer x) -> Integer { return -x; }},
    {"Abs", [](Integer x) -> Integer { return x < 0 ? -x : x; }},
    {"Sign", [](Integer x) -> Integer { return (x > 0) - (x < 0); }},
    {"Not", [](Integer x) -> Integer { return x == 0 ? 1 : 0; }},
    {"BitwiseNot", [](Integer x) -> Integer { return ~x; }},
};

// y[i] = function(x[i]) with elements of type T.
template <typename T, typename Function>
PreparedKernel map_kernel(const Operands& operands, Function function) {
  return make_kernel([x = Elements(operands.in(0)), y = Elements(operands.out(0)),
                      function](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < y.count(); ++i) {
      y.write<T>(arguments.outputs[0], i, function(x.read<T>(arguments.inputs[0], i)));
    }
  });
}

// An attribute truncated to an integer; far beyond every dtype's range where it is not in it.
Integer whole_attribute(const Operands& operands, std::string_view name, double fallback) {
  const double value = operands.attributes().get_float(name, fallback);
  return std::isnan(value) ? 0 : static_cast<Integer>(std::fmax(-1e30, std::fmin(1e30, value)));
}

// The attributes are truncated to the operands' kind, as in ONNX's function body.
PreparedKernel integer_shrink(const Operands& operands) {
  const Integer limit = whole_attribute(operands, "lambd", 0.5);
  const Integer bias = whole_attribute(operands, "bias", 0.0);
  return map_kernel<Integer>(operands, [limit, bias](Integer x) -> Integer {
    return x < -limit ? x + bias : x > limit ? x - bias : 0;
  });
}

PreparedKernel integer_unary(const Operands& operands) {
  if (operands.op() == "Shrink") return integer_shrink(operands);
  for (const IntegerFunction& row : kIntegerFunctions) {
    if (row.op == operands.op()) return map_kernel<Integer>(operands, row.function);
  }
  return unimplemented(operands.op() + ": integer operands are not supported");
}

// x limited to [low, high]; high wins if they cross, as in ONNX. NaN stays.
template <typename T>
PreparedKernel clip_kernel(const Operands& operands) {
  return make_kernel([x = Elements(operands.in(0)), low = Elements(operands.in(1)),
                      high = Elements(operands.in(2)), has_low = operands.in(1).present(),
                      has_high = operands.in(2).present(),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    const T low_value = has_low ? low.read<T>(arguments.inputs[1], 0) : T{};
    const T high_value = has_high ? high.read<T>(arguments.inputs[2], 0) : T{};
    for (std::int64_t i = 0; i < y.count(); ++i) {
      T value = x.read<T>(arguments.inputs[0], i);
      if (has_low && value < low_value) value = low_value;
      if (has_high && value > high_value) value = high_value;
      y.write<T>(arguments.outputs[0], i, value);
    }
  });
}

}  // namespace

PreparedKernel prepare_unary(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:n -> y:n"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  if (is_integer(operands.in(0).dtype)) return integer_unary(operands);
  MEZZO_ASSIGN_OR_RETURN(const ElementStatement function,
                         element_operation(request.op, request.attributes));
  return map_kernel<double>(operands, [function](double x) {
    return compute_formula(function.op, x, 0.0, 0.0, function.alpha, function.beta);
  });
}

PreparedKernel prepare_not(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:b -> y:b"));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  return integer_unary(operands);
}

PreparedKernel prepare_bitwise_not(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:z -> y:z"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_dtype());
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  return integer_unary(operands);
}

namespace {

// y[i] = test(x[i]), a truth value.
template <typename Test>
PreparedKernel test_kernel(const Operands& operands, Test test) {
  return make_kernel([x = Elements(operands.in(0)), y = Elements(operands.out(0)),
                      test](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < y.count(); ++i) {
      const bool holds = test(x.read<double>(arguments.inputs[0], i));
      y.write<Integer>(arguments.outputs[0], i, holds ? 1 : 0);
    }
  });
}

}  // namespace

PreparedKernel prepare_is_nan(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:b"));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  return test_kernel(operands, [](double x) { return std::isnan(x); });
}

PreparedKernel prepare_is_inf(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:b"));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  MEZZO_ASSIGN_OR_RETURN(const bool negative, operands.flag("detect_negative", true));
  MEZZO_ASSIGN_OR_RETURN(const bool positive, operands.flag("detect_positive", true));
  return test_kernel(operands, [negative, positive](double x) {
    return std::isinf(x) && (x < 0.0 ? negative : positive);
  });
}

// The same bits under another dtype of as many.
PreparedKernel prepare_bit_cast(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:a -> y:a"));
  const TensorDesc& x = operands.in(0);
  const TensorDesc& y = operands.out(0);
  if (dtype_bits(x.dtype) != dtype_bits(y.dtype)) {
    return operands.out_error(0, std::string(dtype_name(y.dtype)) + " has another size than " +
                                     std::string(dtype_name(x.dtype)));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, x.dims));
  if (x.layout != y.layout) return operands.error("operand and result in different layouts");
  return make_kernel([bytes = x.bytes()](const KernelArguments& arguments) {
    if (bytes > 0) std::memcpy(arguments.outputs[0], arguments.inputs[0], bytes);
  });
}

PreparedKernel prepare_clip(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:n min?:n max?:n -> y:n"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(1));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(2));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  return is_integer(operands.in(0).dtype) ? clip_kernel<Integer>(operands)
                                          : clip_kernel<double>(operands);
}

}  // namespace mezzo::kernels::reference
