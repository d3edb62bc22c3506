// y[i] = f(x[i]): activations, Clip, Not, IsNaN, IsInf and BitCast.
//
// x and y have equal dims in any layout; computed in double and rounded once. NaN goes through
// every function (Relu, Clip and Shrink included), so that an overflow upstream stays visible.
#include <cmath>
#include <cstring>
#include <iterator>

#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

// Attribute values of one node; each function reads those it has.
struct Parameters {
  double alpha;
  double beta;
  bool tanh;  // Gelu, approximate = "tanh"
};

struct UnaryFunction {
  std::string_view op;
  double (*function)(double x, const Parameters& p);
  double alpha = 0.0;  // defaults of the attributes
  double beta = 0.0;
  std::string_view alpha_name = "alpha";
  std::string_view beta_name = "beta";
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double gelu(double x, const Parameters& p) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  if (p.tanh) return 0.5 * x * (1.0 + std::tanh(kSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
  return 0.5 * x * std::erfc(-x * kSqrtHalf);  // erfc keeps digits where 1 + erf cancels
}

double softplus(double x) {
  return std::isnan(x) ? x : std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

// Selu's defaults, as ONNX spells them.
constexpr double kSeluAlpha = 1.67326319217681884765625;
constexpr double kSeluGamma = 1.05070102214813232421875;

// ONNX's Round: halves to even.
double round_half_even(double x) { return std::nearbyint(x); }

double sign(double x) { return std::isnan(x) ? x : static_cast<double>((x > 0.0) - (x < 0.0)); }

// Defaults of attributes, which are float32 in ONNX.
constexpr double kFifth = 0.2F;
constexpr double kHundredth = 0.01F;

constexpr UnaryFunction kFunctions[] = {
    {"Relu", [](double x, const Parameters&) { return x < 0.0 ? 0.0 : x; }},
    {"Sigmoid", [](double x, const Parameters&) { return sigmoid(x); }},
    {"Tanh", [](double x, const Parameters&) { return std::tanh(x); }},
    {"Erf", [](double x, const Parameters&) { return std::erf(x); }},
    {"Exp", [](double x, const Parameters&) { return std::exp(x); }},
    {"Log", [](double x, const Parameters&) { return std::log(x); }},
    {"Sqrt", [](double x, const Parameters&) { return std::sqrt(x); }},
    {"Reciprocal", [](double x, const Parameters&) { return 1.0 / x; }},
    {"Neg", [](double x, const Parameters&) { return -x; }},
    {"Abs", [](double x, const Parameters&) { return std::fabs(x); }},
    {"Softplus", [](double x, const Parameters&) { return softplus(x); }},
    {"HardSigmoid",
     [](double x, const Parameters& p) {
       const double line = p.alpha * x + p.beta;
       return line < 0.0 ? 0.0 : line > 1.0 ? 1.0 : line;
     },
     kFifth, 0.5},
    {"HardSwish",
     [](double x, const Parameters&) {
       const double line = x / 6.0 + 0.5;
       return x * (line < 0.0 ? 0.0 : line > 1.0 ? 1.0 : line);
     }},
    {"LeakyRelu", [](double x, const Parameters& p) { return x < 0.0 ? p.alpha * x : x; },
     kHundredth},
    {"Elu", [](double x, const Parameters& p) { return x < 0.0 ? p.alpha * std::expm1(x) : x; },
     1.0},
    {"Sin", [](double x, const Parameters&) { return std::sin(x); }},
    {"Cos", [](double x, const Parameters&) { return std::cos(x); }},
    {"Gelu", gelu},
    {"Swish", [](double x, const Parameters& p) { return x * sigmoid(p.alpha * x); }, 1.0},
    {"Floor", [](double x, const Parameters&) { return std::floor(x); }},
    {"Ceil", [](double x, const Parameters&) { return std::ceil(x); }},
    {"Round", [](double x, const Parameters&) { return round_half_even(x); }},
    {"Sign", [](double x, const Parameters&) { return sign(x); }},
    {"Tan", [](double x, const Parameters&) { return std::tan(x); }},
    {"Asin", [](double x, const Parameters&) { return std::asin(x); }},
    {"Acos", [](double x, const Parameters&) { return std::acos(x); }},
    {"Atan", [](double x, const Parameters&) { return std::atan(x); }},
    {"Sinh", [](double x, const Parameters&) { return std::sinh(x); }},
    {"Cosh", [](double x, const Parameters&) { return std::cosh(x); }},
    {"Asinh", [](double x, const Parameters&) { return std::asinh(x); }},
    {"Acosh", [](double x, const Parameters&) { return std::acosh(x); }},
    {"Atanh", [](double x, const Parameters&) { return std::atanh(x); }},
    {"Selu",
     [](double x, const Parameters& p) { return p.beta * (x < 0.0 ? p.alpha * std::expm1(x) : x); },
     kSeluAlpha, kSeluGamma, "alpha", "gamma"},
    {"Celu",
     [](double x, const Parameters& p) { return x < 0.0 ? p.alpha * std::expm1(x / p.alpha) : x; },
     1.0},
    {"Mish", [](double x, const Parameters&) { return x * std::tanh(softplus(x)); }},
    {"Softsign",
     [](double x, const Parameters&) {  // +-1 at the infinities, where x / (1 + |x|) is NaN
       return std::isinf(x) ? std::copysign(1.0, x) : x / (1.0 + std::fabs(x));
     }},
    {"ThresholdedRelu", [](double x, const Parameters& p) { return x <= p.alpha ? 0.0 : x; }, 1.0},
    {"Shrink",
     [](double x, const Parameters& p) {
       return x < -p.alpha ? x + p.beta : x > p.alpha ? x - p.beta : std::isnan(x) ? x : 0.0;
     },
     0.5, 0.0, "lambd", "bias"},
};

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

StatusOr<bool> tanh_approximation(const Operands& operands) {
  const std::string kind = operands.attributes().get_string("approximate", "none");
  if (kind == "none" || kind == "tanh") return kind == "tanh";
  return operands.error("attribute 'approximate' is '" + kind + "', expected 'none' or 'tanh'");
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
  for (const UnaryFunction& row : kFunctions) {
    if (row.op != request.op) continue;
    MEZZO_ASSIGN_OR_RETURN(const bool tanh, tanh_approximation(operands));
    const Parameters parameters{request.attributes.get_float(row.alpha_name, row.alpha),
                                request.attributes.get_float(row.beta_name, row.beta), tanh};
    return map_kernel<double>(operands, [function = row.function, parameters](double x) {
      return function(x, parameters);
    });
  }
  return unimplemented(request.op + ": no such elementwise function");
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
