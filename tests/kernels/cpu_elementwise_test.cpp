// Every elementwise row against the reference, over random shapes, dtypes and attributes.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

enum class Domain { kAll, kPositive, kUnit };  // of the numbers drawn

struct OpCase {
  const char* op;
  int operands = 1;
  Domain domain = Domain::kAll;
  double deviation = 3.0;
  std::int64_t depth = 8;
  bool attributes = false;  // alpha and beta
  bool specials = true;
};

// Depths count the rounded operations of the formulas; for functions 4 stands for the 2 units in
// the last place they may be off (cpu_math_test.cpp).
constexpr OpCase kUnary[] = {
    {"Relu"},
    {"Sigmoid"},
    {"Tanh"},
    {"Erf"},
    {"Exp"},
    {"Log"},
    {"Sqrt"},
    {"Reciprocal"},
    {"Neg"},
    {"Abs"},
    {"Softplus"},
    {"HardSwish", 1, Domain::kAll, 3.0, 8, false, false},
    {"LeakyRelu", 1, Domain::kAll, 3.0, 4, true},
    {"Elu", 1, Domain::kAll, 3.0, 8, true},
    {"Floor"},
    {"Ceil"},
    {"Round"},
    {"Sign"},
    {"Sin"},
    {"Cos"},
    {"HardSigmoid", 1, Domain::kAll, 3.0, 8, true},
    {"Selu", 1, Domain::kAll, 3.0, 8},
    {"Celu", 1, Domain::kAll, 3.0, 12, true},
    {"Mish", 1, Domain::kAll, 3.0, 24, false, false},
    {"Softsign"},
    {"ThresholdedRelu", 1, Domain::kAll, 3.0, 4, true},
    {"Shrink"},
    {"Tan", 1, Domain::kAll, 3.0, 8, false, false},
    {"Asin", 1, Domain::kUnit},
    {"Acos", 1, Domain::kUnit},
    {"Atan"},
    {"Sinh"},
    {"Cosh"},
    {"Asinh"},
    {"Acosh", 1, Domain::kPositive},
    {"Atanh", 1, Domain::kUnit},
};

Numbers domain_numbers(Engine& engine, const TensorDesc& desc, const OpCase& op) {
  Numbers numbers =
      draw_numbers(engine, desc, op.domain == Domain::kUnit ? 0.3 : op.deviation, op.specials);
  for (double& number : numbers) {
    if (op.domain == Domain::kPositive) number = std::fabs(number);
  }
  return numbers;
}

void set_attributes(Engine& engine, const OpCase& op, KernelRequest& request) {
  if (!op.attributes || draw(engine, 0, 2) == 0) return;
  const double alpha = static_cast<double>(draw(engine, 1, 16)) / 16.0;
  request.attributes.set("alpha", alpha);
  if (request.op.starts_with("HardSigmoid")) request.attributes.set("beta", 0.25);
}

// Small ones of any rank, and now and then one that is large enough for threads.
std::vector<std::int64_t> any_dims(Engine& engine) {
  if (draw(engine, 0, 15) == 0) return {draw(engine, 30, 70), draw(engine, 900, 1100)};
  return draw_dims(engine, static_cast<std::size_t>(draw(engine, 0, 4)), 20);
}

Layout any_layout(Engine& engine) {
  return draw(engine, 0, 3) == 0 ? Layout::kChannelsLast : Layout::kRowMajor;
}

TEST(Elementwise, Unary) {
  Engine engine(1);
  for (const OpCase& op : kUnary) {
    for (int round = 0; round < 12; ++round) {
      KernelCase test;
      test.request.op = op.op;
      test.depth = op.depth;
      const auto dims = any_dims(engine);
      const Layout layout = any_layout(engine);
      test.request.inputs = {tensor(draw_float(engine), dims, layout)};
      test.request.outputs = {tensor(draw_float(engine), dims, layout)};
      set_attributes(engine, op, test.request);
      // alpha x + beta cancels next to its zero, and then leaves the rounding of alpha.
      const std::string name = op.op;
      if (name == "HardSigmoid" || name == "HardSwish") test.cancels = 1.0;
      test.operands = {domain_numbers(engine, test.request.inputs[0], op)};
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

// x sigmoid(..) and x Phi(x): the argument's rounding grows with it, up to 20 within this range.
constexpr OpCase kGated[] = {
    {"Gelu", 1, Domain::kAll, 1.5, 64, false, false},
    {"Swish", 1, Domain::kAll, 2.0, 64, true, false},
    {"GeluGrad", 2, Domain::kAll, 1.5, 64, false, false},
    {"SwishGrad", 2, Domain::kAll, 2.0, 64, true, false},
};

TEST(Elementwise, GatedUnits) {
  Engine engine(2);
  for (const OpCase& op : kGated) {
    for (int round = 0; round < 24; ++round) {
      KernelCase test;
      test.request.op = op.op;
      test.depth = op.depth;
      test.cancels = op.operands == 2 ? 0.5 : 0.0;
      const auto dims = any_dims(engine);
      for (int i = 0; i < op.operands; ++i) {
        test.request.inputs.push_back(tensor(draw_float(engine), dims));
        test.operands.push_back(draw_numbers(engine, test.request.inputs.back(), op.deviation));
      }
      test.request.outputs = {tensor(draw_float(engine), dims)};
      set_attributes(engine, op, test.request);
      if (draw(engine, 0, 1) == 0) test.request.attributes.set("approximate", "tanh");
      if (test.request.op.starts_with("Swish")) {
        test.request.attributes.set("approximate", "none");
      }
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

constexpr OpCase kGradients[] = {
    {"ReluGrad"},
    {"SigmoidGrad", 2, Domain::kUnit},
    {"TanhGrad", 2, Domain::kUnit},
    {"ErfGrad", 2, Domain::kAll, 1.5, 32},
    {"SoftplusGrad"},
    {"HardSwishGrad", 2, Domain::kAll, 3.0, 8, false, false},
    {"HardSigmoidGrad", 2, Domain::kAll, 2.0, 8, true},
    {"LeakyReluGrad", 2, Domain::kAll, 3.0, 4, true},
    {"EluGrad", 2, Domain::kAll, 3.0, 8, true},
    {"LogGrad"},
    {"AbsGrad"},
    {"SinGrad"},
    {"CosGrad"},
    {"ExpGrad"},
    {"SqrtGrad", 2, Domain::kPositive},
    {"ReciprocalGrad"},
};

TEST(Elementwise, Gradients) {
  Engine engine(3);
  for (const OpCase& op : kGradients) {
    for (int round = 0; round < 12; ++round) {
      KernelCase test;
      test.request.op = op.op;
      test.depth = op.depth;
      // 1 - y^2 and the like cancel.
      if (op.domain == Domain::kUnit || test.request.op == "HardSwishGrad") test.cancels = 1.0;
      const auto dims = any_dims(engine);
      const Layout layout = any_layout(engine);
      test.request.inputs = {tensor(draw_float(engine), dims, layout),
                             tensor(draw_float(engine), dims, layout)};
      test.request.outputs = {tensor(draw_float(engine), dims, layout)};
      set_attributes(engine, op, test.request);
      // The products of the gradient must not overflow on the way, as float32 does before double.
      OpCase plain = op;
      plain.specials = false;
      test.operands = {domain_numbers(engine, test.request.inputs[0], plain),
                       domain_numbers(engine, test.request.inputs[1], plain)};
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

TEST(Elementwise, GradientsPassNanAndInfinityOn) {
  Engine engine(4);
  for (const char* op : {"ReluGrad", "AbsGrad", "LeakyReluGrad", "EluGrad", "ClipGrad"}) {
    KernelCase test;
    test.request.op = op;
    test.request.inputs = {tensor(DType::kFloat32, {500}), tensor(DType::kFloat32, {500})};
    test.request.outputs = {tensor(DType::kFloat32, {500})};
    test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0, true),
                     draw_numbers(engine, test.request.inputs[1], 1.0, true)};
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
  }
}

// Dims that broadcast to `dims`: leading ones left out, others set to 1 at random.
std::vector<std::int64_t> draw_broadcast(Engine& engine, const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> part(
      dims.begin() + draw(engine, 0, static_cast<std::int64_t>(dims.size())), dims.end());
  for (std::int64_t& dim : part) {
    if (draw(engine, 0, 2) == 0) dim = 1;
  }
  return part;
}

std::vector<std::int64_t> broadcast_of(const std::vector<std::vector<std::int64_t>>& operands) {
  std::vector<std::int64_t> dims;
  for (const auto& operand : operands) {
    if (operand.size() > dims.size()) dims.insert(dims.begin(), operand.size() - dims.size(), 1);
    for (std::size_t i = 0; i < operand.size(); ++i) {
      std::int64_t& dim = dims[dims.size() - operand.size() + i];
      if (operand[i] != 1) dim = operand[i];
    }
  }
  return dims;
}

std::vector<std::int64_t> broadcast_base(Engine& engine) {
  switch (draw(engine, 0, 5)) {
    case 0: return {draw(engine, 60, 80), draw(engine, 500, 600)};
    case 1: return {draw(engine, 2, 3), draw(engine, 3, 70), draw(engine, 200, 400)};
    default: return draw_dims(engine, static_cast<std::size_t>(draw(engine, 0, 5)), 9);
  }
}

TEST(Elementwise, BinaryWithBroadcasting) {
  Engine engine(5);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) {
    for (int round = 0; round < 40; ++round) {
      KernelCase test;
      test.request.op = op;
      const auto base = broadcast_base(engine);
      const auto a = draw_broadcast(engine, base);
      const auto b = draw_broadcast(engine, base);
      test.request.inputs = {tensor(draw_float(engine), a), tensor(draw_float(engine), b)};
      test.request.outputs = {tensor(draw_float(engine), broadcast_of({a, b}))};
      test.operands = {draw_numbers(engine, test.request.inputs[0], 2.0, true),
                       draw_numbers(engine, test.request.inputs[1], 2.0, true)};
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

// The highest rank, with dims that cannot be joined.
TEST(Elementwise, TwelveAlternatingDims) {
  Engine engine(61);
  KernelCase test;
  test.request.op = "Add";
  std::vector<std::int64_t> a, b;
  for (int i = 0; i < 12; ++i) {
    a.push_back(i % 2 == 0 ? 1 : 2);
    b.push_back(i % 2 == 0 ? 2 : 1);
  }
  test.request.inputs = {tensor(DType::kFloat32, a), tensor(DType::kFloat16, b)};
  test.request.outputs = {tensor(DType::kFloat32, std::vector<std::int64_t>(12, 2))};
  test.operands = {draw_numbers(engine, test.request.inputs[0], 2.0),
                   draw_numbers(engine, test.request.inputs[1], 2.0)};
  check_kernel(test);
}

TEST(Elementwise, ChannelsLastBiasAndEqualDims) {
  Engine engine(6);
  for (int round = 0; round < 12; ++round) {
    KernelCase test;
    test.request.op = "Add";
    const std::vector<std::int64_t> dims = {2, draw(engine, 1, 70), draw(engine, 1, 9), 30};
    const std::vector<std::int64_t> other =
        round % 2 == 0 ? dims : std::vector<std::int64_t>{1, dims[1], 1, 1};
    test.request.inputs = {tensor(draw_float(engine), dims, Layout::kChannelsLast),
                           tensor(draw_float(engine), other, Layout::kChannelsLast)};
    test.request.outputs = {tensor(draw_float(engine), dims, Layout::kChannelsLast)};
    test.operands = {draw_numbers(engine, test.request.inputs[0], 2.0),
                     draw_numbers(engine, test.request.inputs[1], 2.0)};
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
  }
}

TEST(Elementwise, Pow) {
  Engine engine(7);
  for (int round = 0; round < 30; ++round) {
    KernelCase test;
    const bool grad = round % 2 == 1;
    test.request.op = grad ? "PowGrad" : "Pow";
    const auto dims = broadcast_base(engine);
    const auto exponent_dims =
        round % 3 == 0 ? std::vector<std::int64_t>{} : draw_broadcast(engine, dims);
    if (grad) test.request.inputs.push_back(tensor(draw_float(engine), dims));
    test.request.inputs.push_back(tensor(draw_float(engine), dims));
    test.request.inputs.push_back(tensor(draw_float(engine), exponent_dims));
    test.request.outputs = {tensor(draw_float(engine), dims)};
    for (std::size_t i = 0; i + 1 < test.request.inputs.size(); ++i) {
      test.operands.push_back(draw_numbers(engine, test.request.inputs[i], 1.5));
    }
    const double whole[] = {0.0, 1.0, 2.0, 3.0, -1.0, 0.5};
    Numbers exponents = draw_numbers(engine, test.request.inputs.back(), 1.0);
    for (double& e : exponents) {
      if (draw(engine, 0, 2) > 0) e = whole[draw(engine, 0, 5)];
    }
    test.operands.push_back(exponents);
    test.depth = 16;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Elementwise, ClipWithAndWithoutBounds) {
  Engine engine(8);
  for (int round = 0; round < 32; ++round) {
    KernelCase test;
    const bool grad = round % 2 == 1;
    test.request.op = grad ? "ClipGrad" : "Clip";
    const auto dims = any_dims(engine);
    for (int i = 0; i < (grad ? 2 : 1); ++i) {
      test.request.inputs.push_back(tensor(draw_float(engine), dims));
      test.operands.push_back(draw_numbers(engine, test.request.inputs.back(), 1.0, true));
    }
    for (const double bound : {-0.5, 0.75}) {
      const bool there = draw(engine, 0, 2) > 0;
      test.request.inputs.push_back(there ? tensor(draw_float(engine), {}) : TensorDesc());
      test.operands.push_back(there ? Numbers{bound} : Numbers{});
    }
    test.request.outputs = {tensor(draw_float(engine), dims)};
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Elementwise, WhereComparisonsAndLogic) {
  Engine engine(9);
  for (const char* op :
       {"Where", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Not"}) {
    for (int round = 0; round < 12; ++round) {
      KernelCase test;
      test.request.op = op;
      const std::string name = op;
      const bool logic = name == "And" || name == "Or" || name == "Not";
      const auto base = broadcast_base(engine);
      std::vector<std::vector<std::int64_t>> shapes;
      if (name == "Where") {
        shapes.push_back(draw_broadcast(engine, base));
        test.request.inputs.push_back(tensor(DType::kBool, shapes.back()));
        test.operands.push_back(draw_integers(engine, test.request.inputs.back(), 0, 1));
      }
      for (int i = 0; i < (name == "Not" ? 1 : 2); ++i) {
        shapes.push_back(draw_broadcast(engine, base));
        test.request.inputs.push_back(
            tensor(logic ? DType::kBool : draw_float(engine), shapes.back()));
        const TensorDesc& desc = test.request.inputs.back();
        test.operands.push_back(logic ? draw_integers(engine, desc, 0, 1)
                                      : draw_numbers(engine, desc, 1.0, true));
      }
      test.request.outputs = {
          tensor(name == "Where" ? draw_float(engine) : DType::kBool, broadcast_of(shapes))};
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

TEST(Elementwise, RefusesWhatItCannotDo) {
  KernelRequest request;
  request.op = "Add";
  request.inputs = {tensor(DType::kFloat32, {2}), tensor(DType::kFloat32, {3})};
  request.outputs = {tensor(DType::kFloat32, {3})};
  EXPECT_EQ(row_status(request, {{1, 2}, {3, 4, 5}}).code(), StatusCode::kInvalidArgument);
  // Another layout than the result's: rows may know how to walk through it, or say that they do
  // not.
  request.inputs = {tensor(DType::kFloat32, {2, 3, 4}, Layout::kChannelsLast),
                    tensor(DType::kFloat32, {2, 3, 4})};
  request.outputs = {tensor(DType::kFloat32, {2, 3, 4})};
  Numbers a(24), b(24);
  for (std::size_t i = 0; i < 24; ++i) a[i] = static_cast<double>(i), b[i] = 100.0;
  const Status status = row_status(request, {a, b});
  if (status.code() == StatusCode::kUnimplemented) return;
  ASSERT_TRUE(status.ok()) << status.message();
  const Numbers y = run_row(request, {a, b}).at(0);
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t w = 0; w < 4; ++w) {
        EXPECT_EQ(y[n * 12 + c * 4 + w], 100.0 + static_cast<double>(n * 12 + w * 3 + c));
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::kernels
