// dx[i] = dy[i] f'(x[i]), from the operand x of the forward function or, where that is cheaper,
// from its result y. At kinks the derivative is PyTorch's: 0 for Abs at 0, for Relu and LeakyRelu
// the one from below, 1 on both ends of Clip.
#include <cmath>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

struct Parameters {
  double alpha;
  double beta;
  bool tanh;  // GeluGrad, approximate = "tanh"
};

struct GradFunction {
  std::string_view op;
  double (*function)(double dy, double v, const Parameters& p);  // v: x or y of the forward op
  double alpha = 0.0;
  double beta = 0.0;
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double gelu_grad(double dy, double x, const Parameters& p) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  constexpr double kInvSqrtTwoPi = 0.39894228040143267794;
  if (p.tanh) {
    const double t = std::tanh(kSqrtTwoOverPi * (x + 0.044715 * x * x * x));
    const double inner = kSqrtTwoOverPi * (1.0 + 3.0 * 0.044715 * x * x);
    return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner);
  }
  return dy * (0.5 * std::erfc(-x * kSqrtHalf) + x * kInvSqrtTwoPi * std::exp(-0.5 * x * x));
}

double swish_grad(double dy, double x, const Parameters& p) {
  const double s = sigmoid(p.alpha * x);
  return dy * s * (1.0 + p.alpha * x * (1.0 - s));
}

double hard_sigmoid_grad(double dy, double x, const Parameters& p) {
  const double line = p.alpha * x + p.beta;
  return line > 0.0 && line < 1.0 ? dy * p.alpha : 0.0;
}

double hard_swish_grad(double dy, double x, const Parameters&) {
  if (x <= -3.0) return 0.0;
  return x >= 3.0 ? dy : dy * (x / 3.0 + 0.5);
}

// Defaults of attributes, which are float32 in ONNX.
constexpr double kFifth = 0.2F;
constexpr double kHundredth = 0.01F;

constexpr GradFunction kFunctions[] = {
    // From y.
    {"ReluGrad", [](double dy, double y, const Parameters&) { return y > 0.0 ? dy : 0.0; }},
    {"SigmoidGrad", [](double dy, double y, const Parameters&) { return dy * y * (1.0 - y); }},
    {"TanhGrad", [](double dy, double y, const Parameters&) { return dy * (1.0 - y * y); }},
    {"ExpGrad", [](double dy, double y, const Parameters&) { return dy * y; }},
    {"SqrtGrad", [](double dy, double y, const Parameters&) { return dy / (2.0 * y); }},
    {"ReciprocalGrad", [](double dy, double y, const Parameters&) { return -dy * y * y; }},
    // From x.
    {"GeluGrad", gelu_grad},
    {"SwishGrad", swish_grad, 1.0},
    {"ErfGrad",
     [](double dy, double x, const Parameters&) {
       return dy * 1.12837916709551257390 * std::exp(-x * x);  // 2 / sqrt(pi)
     }},
    {"SoftplusGrad", [](double dy, double x, const Parameters&) { return dy * sigmoid(x); }},
    {"HardSwishGrad", hard_swish_grad},
    {"HardSigmoidGrad", hard_sigmoid_grad, kFifth, 0.5},
    {"LeakyReluGrad",
     [](double dy, double x, const Parameters& p) { return x > 0.0 ? dy : p.alpha * dy; },
     kHundredth},
    {"EluGrad",
     [](double dy, double x, const Parameters& p) {
       return x > 0.0 ? dy : dy * p.alpha * std::exp(x);
     },
     1.0},
    {"LogGrad", [](double dy, double x, const Parameters&) { return dy / x; }},
    {"AbsGrad",
     [](double dy, double x, const Parameters&) { return x > 0.0   ? dy
                                                         : x < 0.0 ? -dy
                                                                   : 0.0; }},
    {"SinGrad", [](double dy, double x, const Parameters&) { return dy * std::cos(x); }},
    {"CosGrad", [](double dy, double x, const Parameters&) { return -dy * std::sin(x); }},
};

}  // namespace

PreparedKernel prepare_unary_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f v:f -> dx:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, operands.in(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  const std::string approximate = request.attributes.get_string("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    return operands.error("attribute 'approximate' is '" + approximate +
                          "', expected 'none' or 'tanh'");
  }
  for (const GradFunction& row : kFunctions) {
    if (row.op != request.op) continue;
    const Parameters parameters{request.attributes.get_float("alpha", row.alpha),
                                request.attributes.get_float("beta", row.beta),
                                approximate == "tanh"};
    return make_kernel([dy = Elements(operands.in(0)), v = Elements(operands.in(1)),
                        dx = Elements(operands.out(0)), function = row.function,
                        parameters](const KernelArguments& arguments) {
      for (std::int64_t i = 0; i < dx.count(); ++i) {
        dx.write<double>(arguments.outputs[0], i,
                         function(dy.read<double>(arguments.inputs[0], i),
                                  v.read<double>(arguments.inputs[1], i), parameters));
      }
    });
  }
  return unimplemented(request.op + ": no such gradient");
}

PreparedKernel prepare_clip_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "dy:f x:f min?:f max?:f -> dx:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, operands.in(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(2));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(3));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  return make_kernel([dy = Elements(operands.in(0)), x = Elements(operands.in(1)),
                      low = Elements(operands.in(2)), high = Elements(operands.in(3)),
                      has_low = operands.in(2).present(), has_high = operands.in(3).present(),
                      dx = Elements(operands.out(0))](const KernelArguments& arguments) {
    const double low_value = has_low ? low.read<double>(arguments.inputs[2], 0) : -HUGE_VAL;
    const double high_value = has_high ? high.read<double>(arguments.inputs[3], 0) : HUGE_VAL;
    for (std::int64_t i = 0; i < dx.count(); ++i) {
      const double value = x.read<double>(arguments.inputs[1], i);
      const bool inside = value >= low_value && value <= high_value;
      dx.write<double>(arguments.outputs[0], i,
                       inside ? dy.read<double>(arguments.inputs[0], i) : 0.0);
    }
  });
}

// dx = dy e x^(e-1); 0 where e is 0, also at x = 0, where the formula would give 0 times infinity.
PreparedKernel prepare_pow_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "dy:f x:f exponent:n -> dx:f"));
  const Dims& dims = operands.in(0).dims;
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  if (!broadcasts_to(operands.in(2).dims, dims)) {
    return operands.in_error(2, "dims " + format_dims(operands.in(2).dims) +
                                    " do not broadcast to " + format_dims(dims));
  }
  return make_kernel(
      [loop = broadcast_loop<4>(
           dims, {&operands.in(0), &operands.in(1), &operands.in(2), &operands.out(0)}),
       dy = Elements(operands.in(0)), x = Elements(operands.in(1)), e = Elements(operands.in(2)),
       dx = Elements(operands.out(0))](const KernelArguments& arguments) {
        for_each(loop, [&](const std::array<std::int64_t, 4>& at) {
          const double exponent = e.read_at<double>(arguments.inputs[2], at[2]);
          const double base = x.read_at<double>(arguments.inputs[1], at[1]);
          const double slope = exponent == 0.0 ? 0.0 : exponent * std::pow(base, exponent - 1.0);
          dx.write_at<double>(arguments.outputs[0], at[3],
                              dy.read_at<double>(arguments.inputs[0], at[0]) * slope);
        });
      });
}

}  // namespace mezzo::kernels::reference
