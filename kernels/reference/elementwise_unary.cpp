// y[i] = f(x[i]): activations, Clip, Not and Cast.
//
// x and y have equal dims in any layout; computed in double and rounded once. NaN goes through
// every function (Relu and Clip included), so that an overflow upstream stays visible.
#include <cmath>
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
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double gelu(double x, const Parameters& p) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  if (p.tanh) return 0.5 * x * (1.0 + std::tanh(kSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
  return 0.5 * x * std::erfc(-x * kSqrtHalf);  // erfc keeps digits where 1 + erf cancels
}

// ONNX's Round: halves to even.
double round_half_even(double x) { return std::nearbyint(x); }

double sign(double x) { return std::isnan(x) ? x : static_cast<double>((x > 0.0) - (x < 0.0)); }

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
    {"Softplus",
     [](double x, const Parameters&) {
       return std::isnan(x) ? x : std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
     }},
    {"HardSigmoid",
     [](double x, const Parameters& p) {
       const double line = p.alpha * x + p.beta;
       return line < 0.0 ? 0.0 : line > 1.0 ? 1.0 : line;
     },
     0.2, 0.5},
    {"HardSwish",
     [](double x, const Parameters&) {
       const double line = x / 6.0 + 0.5;
       return x * (line < 0.0 ? 0.0 : line > 1.0 ? 1.0 : line);
     }},
    {"LeakyRelu", [](double x, const Parameters& p) { return x < 0.0 ? p.alpha * x : x; }, 0.01},
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

StatusOr<bool> tanh_approximation(const Operands& operands) {
  const std::string kind = operands.attributes().get_string("approximate", "none");
  if (kind == "none" || kind == "tanh") return kind == "tanh";
  return operands.error("attribute 'approximate' is '" + kind + "', expected 'none' or 'tanh'");
}

PreparedKernel integer_unary(const Operands& operands) {
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
    const Parameters parameters{request.attributes.get_float("alpha", row.alpha),
                                request.attributes.get_float("beta", row.beta), tanh};
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

PreparedKernel prepare_cast(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:v -> y:v"));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  // Integers stay integers on the way, so that none above 2^53 loses digits.
  if (!is_floating(operands.in(0).dtype)) {
    return map_kernel<Integer>(operands, [](Integer x) { return x; });
  }
  return map_kernel<double>(operands, [](double x) { return x; });
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
